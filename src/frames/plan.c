/* SPDX-License-Identifier: MIT */
#include "plan.h"

/* The unit is the whole tensor, which the first sweep measures. */
static tlc_plan plan_tensor(const tlc_plan_facts *f, int adds)
{
    int in_one_sweep = f->chooses == TLC_CHOOSES_IN_ONE_SWEEP;
    tlc_plan plan = {.max = TLC_MAX_FIRST};

    if (adds && f->assume_finite) {
        plan.first = TLC_FIRST_ADD;
        plan.max = in_one_sweep ? TLC_MAX_CHOOSE : TLC_MAX_FIRST;
        return plan;
    }
    plan.first = in_one_sweep ? TLC_FIRST_CHOOSE : TLC_FIRST_MAX;
    plan.add = adds && f->chooses == TLC_CHOOSES_BY_VALUES;
    return plan;
}

/* The units are blocks. Each is swept while it is in the cache. With assume_finite there is no sweep before that. */
static tlc_plan plan_blocks(const tlc_plan_facts *f, int adds)
{
    int in_one_sweep = f->chooses == TLC_CHOOSES_IN_ONE_SWEEP;
    tlc_plan plan = {.first = f->assume_finite ? TLC_FIRST_NONE : TLC_FIRST_MAX};

    plan.keep_maxima = !f->assume_finite && !in_one_sweep && f->blocks <= TLC_KEPT_MAX;
    plan.add = adds && (f->assume_finite || f->chooses == TLC_CHOOSES_BY_VALUES);
    plan.max = in_one_sweep       ? TLC_MAX_CHOOSE
               : plan.keep_maxima ? TLC_MAX_FIRST
               : plan.add         ? TLC_MAX_ADD
                                  : TLC_MAX_SWEEP;
    return plan;
}

tlc_plan tlc_plan_of(const tlc_plan_facts *f)
{
    int adds = f->has_residual && f->has_gradient;

    if (f->exact && !f->has_residual)
        return (tlc_plan){.first = TLC_FIRST_NONE};
    return f->blocks ? plan_blocks(f, adds) : plan_tensor(f, adds);
}
