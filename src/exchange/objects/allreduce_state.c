/* SPDX-License-Identifier: MIT
 *
 * What an all-reduce has: parts, codecs, residuals, statistics, states.
 */
#include "allreduce.h"
#include "object_state.h"
#include "../plan/refusal.h"

size_t tlc_allreduce_parts(const tlc_allreduce *a)
{
    return a && tlc_allreduce_owns(a, a->setup.rank) ? a->owner.answer.part_count : 0;
}

tlc_status tlc_allreduce_part(const tlc_allreduce *a, size_t i, tlc_part *part)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (!tlc_allreduce_owns(a, a->setup.rank))
        return tlc_refuse(&a->setup, TLC_ERR_PARAM, TLC_ALL, "there is no part %zu; this rank owns none", i);
    return tlc_owner_part(&a->owner, i, part);
}

size_t tlc_allreduce_pushed_parts(const tlc_allreduce *a)
{
    return a ? a->push.open_count : 0;
}

tlc_status tlc_allreduce_pushed_part(const tlc_allreduce *a, size_t i, tlc_part *part)
{
    return a ? tlc_pushing_part(&a->push, i, part) : TLC_ERR_PARAM;
}

size_t tlc_allreduce_pulled_parts(const tlc_allreduce *a)
{
    return a ? a->in.open_count : 0;
}

tlc_status tlc_allreduce_pulled_part(const tlc_allreduce *a, size_t i, tlc_part *part)
{
    return a ? tlc_receiver_part(&a->in, i, part) : TLC_ERR_PARAM;
}

tlc_status tlc_allreduce_mask(tlc_allreduce *a, float *const *momentum)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (!momentum && a->setup.count)
        return tlc_refuse_null(&a->setup, "momentum");
    for (uint32_t i = 0; a->masks && i < a->push.sender.messages; i++)
        tlc_sender_mask(&a->push.sender, a->push.step, i, momentum);
    return TLC_OK;
}

size_t tlc_allreduce_message_bound(const tlc_allreduce *a)
{
    return a ? a->setup.message_bound : 0;
}

uint64_t tlc_allreduce_step(const tlc_allreduce *a)
{
    return a ? a->step : 0;
}

uint64_t tlc_allreduce_history(const tlc_allreduce *a)
{
    return a ? a->history : 0;
}

static tlc_object object_of(const tlc_allreduce *a)
{
    tlc_allreduce *changing = (tlc_allreduce *)(uintptr_t)a; /* only if the caller may change it */

    return (tlc_object){.x = &a->setup,
                        .push = &changing->push.sender,
                        .pull = tlc_allreduce_owns(a, a->setup.rank) ? &changing->owner.answer : NULL,
                        .step = a->step,
                        .history = a->history};
}

tlc_status tlc_allreduce_set_codec(tlc_allreduce *a, size_t tensor, const char *push, const char *pull)
{
    if (!a)
        return TLC_ERR_PARAM;
    const tlc_object o = object_of(a);
    return tlc_object_set_codec(&o, tensor, push, pull);
}

tlc_status tlc_allreduce_residual_scale(tlc_allreduce *a, float factor)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (a->state != TLC_ALLREDUCE_IDLE)
        return tlc_refuse_step(&a->setup, "residual_scale");
    const tlc_object o = object_of(a);
    return tlc_object_scale(&o, factor);
}

tlc_status tlc_allreduce_outcome(const tlc_allreduce *a, tlc_outcome *outcome)
{
    return a ? tlc_setup_outcome(&a->setup, &a->report, outcome) : TLC_ERR_PARAM;
}

tlc_status tlc_allreduce_stats(const tlc_allreduce *a, tlc_exchange_stats *stats)
{
    return a ? tlc_stats_export(&a->setup, stats, &a->stats, &a->push.sender, &a->owner.answer) : TLC_ERR_PARAM;
}

size_t tlc_allreduce_state_size(const tlc_allreduce *a)
{
    if (!a)
        return 0;
    const tlc_object o = object_of(a);
    return tlc_object_state_size(&o);
}

tlc_status tlc_allreduce_state_save(const tlc_allreduce *a, void *dst, size_t cap, size_t *written)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (a->state != TLC_ALLREDUCE_IDLE)
        return tlc_refuse_step(&a->setup, "state_save");
    const tlc_object o = object_of(a);
    return tlc_object_state_save(&o, dst, cap, written);
}

static tlc_status load(tlc_allreduce *a, const tlc_message *states, size_t count, int lost)
{
    if (!a)
        return TLC_ERR_PARAM;
    if (a->state != TLC_ALLREDUCE_IDLE)
        return tlc_refuse_step(&a->setup, "state_load");
    tlc_object o = object_of(a);
    tlc_status status = tlc_object_state_load(&o, states, count, lost);
    a->step = o.step;
    a->history = o.history;
    return status;
}

tlc_status tlc_allreduce_state_load(tlc_allreduce *a, const tlc_message *states, size_t count)
{
    return load(a, states, count, 0);
}

tlc_status tlc_allreduce_state_salvage(tlc_allreduce *a, const tlc_message *states, size_t count)
{
    return load(a, states, count, 1);
}
