/* SPDX-License-Identifier: MIT
 *
 * The optimizer of an owner in an all-reduce, and what must be true after its answer.
 */
#include "allreduce.h"
#include "tasks.h"
#include <math.h>

/* Calls that must fail between average and answer. */
static void refuse_between(const reduction *w, member *m)
{
    object *o = m->o;
    const tlc_message from[MOST_RANKS] = {{NULL, 0}};
    tlc_message to[MOST_RANKS] = {{NULL, 0}};
    void *out[MOST_TENSORS];

    if (!falls(drawn(w->run->sc.seed, ABOUT_WRONG_CALL, o->step, o->rank, FINISHED), w->run->sc.rate[FAULT_WRONG]))
        return;
    point_at(w->run, m->out, dtype_size[o->dtype], (const void **)out);
    must_refuse(o, tlc_allreduce_push(o->it, NULL, 1, to), TLC_ERR_ORDER);
    must_refuse(o, tlc_allreduce_average(o->it, from), TLC_ERR_ORDER);
    must_refuse(o, tlc_allreduce_reduce(o->it, from, to), TLC_ERR_ORDER);
    if (is_owner(w, o->rank))
        must_refuse(o, tlc_allreduce_pull(o->it, from, out), TLC_ERR_ORDER);
    must_refuse(o, object_scale(o, 2), TLC_ERR_ORDER);
}

/* What an owner makes of the means: smaller changes, perhaps with a value that is not finite. Returns the part that has
 * it, or NULL. If the means failed, it is what was there. */
static const part_place *make_changes(reduction *w, member *m, const float **changes)
{
    run *r = w->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_DELTA, m->o->step, m->o->rank, 0);
    const part_place *first = first_part(&w->group, m->o->rank), *end = first_part(&w->group, m->o->rank + 1);
    const part_place *bad = NULL;

    for (const part_place *p = first; p < end; p++) {
        for (size_t i = 0; i < p->n; i++)
            m->owned_given[p->at + i] *= -0.125f;
        changes[p - first] = m->owned_given + p->at;
    }
    if (first == end || r->sc.assume_finite || !falls(draw, 2 * r->sc.rate[FAULT_NONFINITE]))
        return NULL;
    bad = first + below(draw, (uint64_t)(end - first));
    if (!bad->n)
        return NULL;
    m->owned_given[bad->at + below(mixed(draw), bad->n)] = draw & 4 ? NAN : INFINITY;
    r->found->injected[FAULT_NONFINITE]++;
    return bad;
}

/* before: the outcome after average. bad: a part with a value that is not finite, or NULL. */
static void check_answered(reduction *w, member *m, const tlc_outcome *before, const part_place *bad)
{
    run *r = w->run;
    const tlc_outcome outcome = object_outcome(m->o, 0);

    if (m->reduced && (bad || (may_overflow(&r->sc) && outcome.cause))) {
        blame b = blame_of(CAUSE(TLC_ERR_NONFINITE), m->o->rank, bad ? bad->tensor : outcome.tensor, 0, NULL);
        m->reduced = 0;
        add_common_fault(w, m->o->step, b);
        (void)check_outcome(m->o, 0, TLC_OK, b);
        must(r, CALLS, !outcome.taken, "answer: somebody was taken");
        return;
    }
    (void)check_outcome(m->o, 0, TLC_OK, blame_of(CAUSE(before->cause), before->rank, before->tensor, 0, NULL));
    must(r, CALLS, !outcome.taken == !m->reduced, "answer: who was taken");
}

void step_answer(reduction *w, member *m, tlc_message *answer)
{
    run *r = w->run;
    const float *changes[MOST_RANKS * MOST_TENSORS];
    const tlc_outcome before = object_outcome(m->o, 0);

    refuse_between(w, m);
    const part_place *bad = make_changes(w, m, changes);
    tlc_status status = IN_MODE(r, tlc_allreduce_answer(m->o->it, changes, answer));
    must(r, CALLS, !status, "answer: %s", tlc_status_string(status));
    if (is_owner(w, m->o->rank))
        check_answered(w, m, &before, bad);
}
