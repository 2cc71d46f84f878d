/* SPDX-License-Identifier: MIT
 *
 * What the owners of an all-reduce do: they average pushes, and answer.
 */
#include "allreduce.h"
#include "../plan/refusal.h"

/* What this owner found, and who was taken. A rank that owns nothing finds nothing. */
static tlc_status tell_owner(tlc_allreduce *a, tlc_status status)
{
    const tlc_finding none = tlc_finding_of(TLC_REASON_NONE);
    const int is_owner = tlc_allreduce_owns(a, a->setup.rank);

    (void)tlc_allreduce_tell(a, status, is_owner ? &a->owner.finding : &none);
    if (is_owner && !a->owner.failed)
        tlc_allreduce_tell_taken(a, a->owner.round.bits);
    return status;
}

/* May the pushes be averaged now? */
static tlc_status may_average(const tlc_allreduce *a, const char *gather, const char *early, const char *late)
{
    if (tlc_is_gather(a))
        return tlc_refuse_turn(&a->setup, gather);
    return a->state == TLC_ALLREDUCE_PUSHED ? TLC_OK
                                            : tlc_refuse_turn(&a->setup, a->state == TLC_ALLREDUCE_IDLE ? early : late);
}

static void average(tlc_allreduce *a, const tlc_message *from)
{
    tlc_owner *o = &a->owner;
    tlc_finding finding, bad;

    if (tlc_allreduce_owns(a, a->setup.rank)) {
        tlc_allreduce_read_pushes(a, &o->round, from, &finding, &bad);
        if (!finding.cause)
            tlc_owner_reduce(o, 1);
        else {
            o->failed = 1;
            o->finding = finding;
        }
        a->stats.received += tlc_allreduce_received(a, from);
    }
    a->state = TLC_ALLREDUCE_AVERAGED;
}

static tlc_status answer(tlc_allreduce *a, const float *const *delta, tlc_message *to_all)
{
    const uint32_t others = a->setup.cfg.workers - 1;
    tlc_owner *o = &a->owner;

    *to_all = (tlc_message){NULL, 0};
    if (tlc_allreduce_owns(a, a->setup.rank)) {
        *to_all = tlc_owner_answer(o, a->step, delta);
        a->stats.sent += (uint64_t)to_all->len * others;
        a->stats.float_bytes += o->failed ? 0 : tlc_sender_float_bytes(&o->answer, 0) * others;
    }
    a->state = TLC_ALLREDUCE_REDUCED;
    return tell_owner(a, TLC_OK);
}

/* frames: NULL, or those of answers. */
static tlc_status reduce(tlc_allreduce *a, const tlc_message *from, const tlc_message *frames, tlc_message *to_all)
{
    const int is_owner = tlc_allreduce_owns(a, a->setup.rank);
    tlc_status status;

    if (!from || !to_all)
        return tlc_refuse_null(&a->setup, from ? "to_all" : "from");
    status = may_average(a, "reduce was called, which gather does not have,", "reduce was called before push",
                         "reduce was called again");
    if (!status && frames && is_owner)
        status = tlc_owner_give(&a->owner, frames);
    if (status)
        return status;
    average(a, from);
    return answer(a, NULL, to_all);
}

tlc_status tlc_allreduce_reduce(tlc_allreduce *a, const tlc_message *from, tlc_message *to_all)
{
    return a ? reduce(a, from, NULL, to_all) : TLC_ERR_PARAM;
}

tlc_status tlc_allreduce_owned_frames(tlc_allreduce *a, const tlc_message *from, tlc_message *frames, float *factors)
{
    tlc_finding finding, bad;

    if (!a)
        return TLC_ERR_PARAM;
    if (!from || !frames || !factors)
        return tlc_refuse_null(&a->setup, !from ? "from" : frames ? "factors" : "frames");
    const tlc_status status = may_average(a, "owned_frames was called, which gather does not have,",
                                          "owned_frames was called before push",
                                          "owned_frames was called after reduce");
    if (status || !tlc_allreduce_owns(a, a->setup.rank))
        return status;
    tlc_allreduce_read_pushes(a, &a->owner.round, from, &finding, &bad);
    if (!finding.cause)
        (void)tlc_owner_frames(&a->owner, frames, factors, &finding);
    return tlc_allreduce_tell(a, finding.cause ? TLC_ERR_STEP : TLC_OK, &finding);
}

tlc_status tlc_allreduce_reduce_frames(tlc_allreduce *a, const tlc_message *from, const tlc_message *frames,
                                       tlc_message *to_all)
{
    if (!a)
        return TLC_ERR_PARAM;
    return frames ? reduce(a, from, frames, to_all) : tlc_refuse_null(&a->setup, "frames");
}

tlc_status tlc_allreduce_average(tlc_allreduce *a, const tlc_message *from)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (!from)
        return tlc_refuse_null(&a->setup, "from");
    const tlc_status status = may_average(a, "average was called, which gather does not have,",
                                          "average was called before push", "average was called again");
    if (status)
        return status;
    average(a, from);
    return tell_owner(a, tlc_allreduce_owns(a, a->setup.rank) && a->owner.failed ? TLC_ERR_STEP : TLC_OK);
}

tlc_status tlc_allreduce_answer(tlc_allreduce *a, const float *const *delta, tlc_message *to_all)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (!to_all)
        return tlc_refuse_null(&a->setup, "to_all");
    if (tlc_is_gather(a))
        return tlc_refuse_turn(&a->setup, "answer was called, which gather does not have,");
    const tlc_status status = tlc_allreduce_owns(a, a->setup.rank) ? tlc_owner_check(&a->owner, delta) : TLC_OK;
    if (status)
        return status;
    if (a->state != TLC_ALLREDUCE_AVERAGED)
        return tlc_refuse_turn(&a->setup, a->state == TLC_ALLREDUCE_REDUCED ? "answer was called again"
                                                                            : "answer was called before average");
    return answer(a, delta, to_all);
}
