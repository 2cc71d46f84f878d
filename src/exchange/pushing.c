/* SPDX-License-Identifier: MIT */
#include "pushing.h"
#include "../values/dtype.h"

tlc_status tlc_pushing_init(tlc_pushing *p, tlc_setup *x, uint32_t messages, uint32_t slots)
{
    p->finding = tlc_finding_of(TLC_REASON_NONE);
    return tlc_sender_init(&p->sender, x, TLC_PUSH, 0, messages, slots);
}

int tlc_pushing_valid(const tlc_pushing *p, const void *const *grads, double weight)
{
    const tlc_sender *s = &p->sender;

    if (!grads)
        return 1;
    for (size_t g = 0; g < s->group_count; g++) {
        const tlc_ownership_group *group = tlc_sender_group(s, g);
        for (size_t i = 0; s->ctx[g] && i < group->count; i++)
            if (!grads[tlc_group_part(s, group, i)->tensor])
                return 0;
    }
    return tlc_weight_valid(weight);
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
