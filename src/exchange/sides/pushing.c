/* SPDX-License-Identifier: MIT */
#include "pushing.h"
#include "../../common/structs.h"
#include "../../api/context.h"
#include "../../values/dtype.h"
#include "../plan/refusal.h"

tlc_status tlc_pushing_init(tlc_pushing *p, tlc_setup *x, uint32_t messages, uint32_t slots)
{
    tlc_sender *s = &p->sender;

    p->finding = tlc_finding_of(TLC_REASON_NONE);
    tlc_status status = tlc_sender_init(s, x, TLC_PUSH, 0, messages, slots);
    if (status)
        return status;
    p->open = tlc_memory_take(&x->memory, s->group_count, sizeof *p->open);
    for (size_t g = 0; !x->memory.status && g < s->group_count; g++)
        if (s->ctx[g] && !tlc_sender_group(s, g)->shared)
            p->open[p->open_count++] = g;
    return x->memory.status;
}

/* ---- frames of the caller ---------------------------------------------------------------------------------------- */

tlc_status tlc_pushing_part(const tlc_pushing *p, size_t i, tlc_part *part)
{
    const tlc_sender *s = &p->sender;

    if (!part || part->struct_size < sizeof part->struct_size)
        return tlc_refuse_struct(s->x, "part");
    if (i >= p->open_count)
        return tlc_refuse(s->x, TLC_ERR_PARAM, TLC_ALL, "there is no pushed part %zu; there are %zu", i, p->open_count);
    const size_t index = tlc_group_index(s, tlc_sender_group(s, p->open[i]), 0);
    const tlc_ownership_part *found = tlc_sender_part(s, index);
    const tlc_part ours = {.tensor = found->tensor,
                           .first = found->first,
                           .n = found->n,
                           .residual = s->residual[index],
                           .seed = s->ctx[p->open[i]]->seed};
    tlc_export(part, &ours, sizeof ours);
    return TLC_OK;
}

tlc_status tlc_pushing_give(tlc_pushing *p, const tlc_message *frames)
{
    tlc_status status = TLC_OK;

    for (size_t i = 0; !status && i < p->open_count; i++)
        status = tlc_sender_give(&p->sender, p->open[i], i, frames[i]);
    return status;
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

/* The first tensor that is pushed and has no gradient, or TLC_ALL. */
static size_t without_gradient(const tlc_sender *s, const void *const *grads)
{
    for (size_t g = 0; g < s->group_count; g++) {
        const tlc_ownership_group *group = tlc_sender_group(s, g);
        for (size_t i = 0; s->ctx[g] && !tlc_sender_given(s, g) && i < group->count; i++)
            if (!grads[tlc_group_part(s, group, i)->tensor])
                return tlc_group_part(s, group, i)->tensor;
    }
    return TLC_ALL;
}

tlc_status tlc_pushing_check(const tlc_pushing *p, const void *const *grads, double weight, const tlc_message *to)
{
    const tlc_setup *x = p->sender.x;
    const size_t missing = grads ? without_gradient(&p->sender, grads) : TLC_ALL;

    if (!to)
        return tlc_refuse_null(x, "to");
    if (missing != TLC_ALL)
        return tlc_refuse(x, TLC_ERR_PARAM, missing, "its entry of grads is NULL");
    if (grads && !tlc_weight_valid(weight))
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "weight is %s; it is 2^-50 to 2^50", tlc_text_real(weight).text);
    if (p->under_way)
        return tlc_refuse(x, TLC_ERR_ORDER, TLC_ALL, "push was called again, but step %llu has not ended",
                          (unsigned long long)*x->step);
    return TLC_OK;
}

/* Where the values of each part are. A tensor that is not sent may have none. */
static void set_sources(tlc_sender *s, const void *const *grads)
{
    for (size_t p = 0; p < s->part_count; p++) {
        const tlc_ownership_part *part = tlc_sender_part(s, p);
        const uint8_t *values = grads[part->tensor];
        s->source[p] = values ? values + part->first * tlc_dtype_size(s->dtype) : NULL;
    }
}

static void drop(tlc_pushing *p, tlc_reason reason, size_t part)
{
    const tlc_setup *x = p->sender.x;

    p->finding = tlc_finding_of(reason);
    p->finding.role = x->role;
    p->finding.rank = x->rank;
    p->finding.tensor = tlc_sender_part(&p->sender, part)->tensor;
}

void tlc_pushing_make(tlc_pushing *p, uint64_t step, const void *const *grads, double weight, int listen,
                      uint64_t *dropped)
{
    tlc_sender *s = &p->sender;
    int assume_finite = s->x->cfg.assume_finite;
    size_t bad = TLC_ALL;

    p->finding = tlc_finding_of(TLC_REASON_NONE);
    p->step = step;
    p->under_way = 1;
    if (grads) {
        set_sources(s, grads);
        if (!assume_finite)
            bad = tlc_sender_nonfinite(s);
        if (bad != TLC_ALL)
            drop(p, TLC_REASON_GRADIENT, bad);
        else {
            if (listen)
                *dropped += tlc_sender_accumulate(s, &bad);
            else
                (void)tlc_sender_encode(s, step, &bad);
            if (bad != TLC_ALL)
                drop(p, assume_finite ? TLC_REASON_GRADIENT : TLC_REASON_SUM, bad);
        }
    }
    tlc_head head = {.phase = TLC_PHASE_PUSH,
                     .absent = !grads || listen,
                     .sender = s->x->rank,
                     .step = step,
                     .weight = weight};
    head.failed = !head.absent && p->finding.reason != TLC_REASON_NONE;
    head.finding = head.failed ? p->finding : tlc_finding_of(TLC_REASON_NONE);
    for (uint32_t i = 0; i < s->messages; i++)
        (void)tlc_sender_seal(s, i, &head);
}
