/* SPDX-License-Identifier: MIT
 *
 * A sender is made, and keeps what it sent.
 */
#include "sender.h"
#include "../../frames/frame.h"
#include "../../values/input.h"
#include "../plan/refusal.h"

/* ---- make -------------------------------------------------------------------------------------------------------- */

/* The residual of a part: the caller's, or its place in the residual of its group. */
static float *part_residual(const tlc_sender *s, const tlc_ownership_part *part, float *own)
{
    float *theirs = s->direction == TLC_PUSH ? s->x->tensors[part->tensor].residual : NULL;

    return theirs ? theirs + part->first : own;
}

static tlc_status init_group(tlc_sender *s, tlc_setup *x, size_t g)
{
    const tlc_ownership_group *group = tlc_sender_group(s, g);
    const tlc_ownership_part *first = tlc_group_part(s, group, 0);
    const tlc_setup_tensor *t = &x->tensors[first->tensor];
    const size_t alone = group->shared ? TLC_ALL : first->tensor; /* whom sentences name */
    char why[TLC_SENTENCE];
    tlc_config cfg;

    for (size_t i = 0; i < group->count; i++)
        s->group_of[tlc_group_index(s, group, i)] = g;
    if (s->direction == TLC_PUSH && group->pusher && group->pusher != x->rank + 1)
        return TLC_OK;
    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = t->codec[s->direction];
    cfg.reserve = group->shared ? NULL : x->cfg.reserve;
    cfg.dtype = s->dtype;
    cfg.feedback = tlc_setup_feedback(x, first->tensor, s->direction);
    cfg.seed = tlc_setup_seed(x, first, s->direction);
    cfg.isa = x->cfg.isa;
    cfg.assume_finite = x->cfg.assume_finite && !group->shared; /* a NaN must not harm others in the frame */
    cfg.alloc = x->cfg.alloc;
    cfg.parallel = x->cfg.parallel;
    if (cfg.feedback) {
        int in_place = !group->shared && part_residual(s, first, NULL);
        s->together[g] = in_place ? part_residual(s, first, NULL)
                                  : tlc_memory_take(&x->memory, group->n, sizeof(float));
        if (!s->together[g])
            return tlc_refuse_status(x, alone, x->memory.status);
        float *at = s->together[g];
        for (size_t i = 0; i < group->count; i++) {
            const tlc_ownership_part *part = tlc_group_part(s, group, i);
            s->residual[tlc_group_index(s, group, i)] = part_residual(s, part, at);
            at += part->n;
        }
    }
    cfg.residual = s->together[g];
    cfg.message = why;
    cfg.message_cap = sizeof why;
    tlc_status status = tlc_create(&s->ctx[g], &cfg, group->n);
    return status ? tlc_refuse(x, status, alone, "%s", why) : TLC_OK;
}

/* The buffers of the messages to one owner. */
static tlc_status init_buffers(tlc_sender *s, tlc_setup *x, uint32_t i)
{
    size_t from = tlc_sender_begin(s, i), to = tlc_sender_begin(s, i + 1), cap;
    size_t room = tlc_message_room(x, s->direction == TLC_PUSH ? TLC_PHASE_PUSH : TLC_PHASE_ANSWER);
    uint64_t frames = 0, count = to - from;
    tlc_status status;

    for (size_t g = from; g < to; g++)
        frames = tlc_sum(frames, tlc_bound(s->ctx[g]));
    if (frames > SIZE_MAX || count > UINT32_MAX)
        return TLC_ERR_SIZE;
    status = tlc_bundle_bound((uint32_t)count, (size_t)frames, &cap);
    for (uint32_t slot = 0; !status && slot < s->slots; slot++) {
        tlc_outgoing *out = &s->out[(size_t)slot * s->messages + i];
        uint8_t *buffer = tlc_memory_take(&x->memory, tlc_sum(cap, room + TLC_CHECKSUM_SIZE), 1);
        if (!buffer)
            return x->memory.status;
        out->bundle_at = buffer + room;
        out->bundle_cap = cap;
    }
    return status;
}

tlc_status tlc_sender_init(tlc_sender *s, tlc_setup *x, tlc_direction direction, uint32_t first_owner,
                           uint32_t messages, uint32_t slots)
{
    const tlc_ownership *own = &x->ownership;
    const tlc_grouping *grouping = &own->grouping[direction];
    tlc_memory *m = &x->memory;
    tlc_status status = TLC_OK;

    *s = (tlc_sender){
        .x = x,
        .direction = direction,
        .dtype = direction == TLC_PUSH ? x->cfg.dtype : TLC_F32,
        .first_owner = first_owner,
        .messages = messages,
        .slots = slots,
        .first_part = own->begin[first_owner],
        .part_count = own->begin[first_owner + messages] - own->begin[first_owner],
        .first_group = grouping->begin[first_owner],
        .group_count = grouping->begin[first_owner + messages] - grouping->begin[first_owner],
    };
    s->source = tlc_memory_take(m, s->part_count, sizeof *s->source);
    s->group_of = tlc_memory_take(m, s->part_count, sizeof *s->group_of);
    s->ctx = tlc_memory_take(m, s->group_count, sizeof(tlc_ctx *));
    s->given = tlc_memory_take(m, s->group_count, sizeof *s->given);
    s->residual = tlc_memory_take(m, s->part_count, sizeof *s->residual);
    s->together = tlc_memory_take(m, s->group_count, sizeof *s->together);
    s->gathered = tlc_memory_take(m, grouping->shared_n, tlc_dtype_size(s->dtype));
    s->out = tlc_memory_take(m, tlc_product(slots, messages), sizeof *s->out);
    if (m->status) {
        s->group_count = 0;
        return m->status;
    }
    for (size_t g = 0; !status && g < s->group_count; g++)
        status = init_group(s, x, g);
    for (uint32_t i = 0; !status && i < messages; i++)
        status = init_buffers(s, x, i);
    return status;
}

void tlc_sender_free(tlc_sender *s)
{
    for (size_t g = 0; g < s->group_count; g++)
        tlc_destroy(s->ctx[g]);
}

/* The first of the parts in `list` that is not before `part`; `count` if all are. */
static size_t first_from(const size_t *list, size_t count, size_t part)
{
    size_t low = 0;

    for (size_t high = count; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (list[middle] < part)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

tlc_parts tlc_sender_parts_of(const tlc_sender *s, size_t tensor)
{
    const tlc_ownership *own = &s->x->ownership;
    const size_t *all = own->by_tensor + own->of_tensor[tensor];
    size_t count = own->of_tensor[tensor + 1] - own->of_tensor[tensor];
    size_t from = first_from(all, count, s->first_part), to = first_from(all, count, s->first_part + s->part_count);

    return (tlc_parts){all + from, to - from, s->first_part};
}

tlc_ctx *tlc_sender_context(const tlc_sender *s, size_t p, int *shared)
{
    size_t g = s->group_of[p];

    *shared = tlc_sender_group(s, g)->shared;
    return s->ctx[g];
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

size_t tlc_sender_nonfinite(const tlc_sender *s)
{
    tlc_float_mode mode = tlc_float_enter();
    size_t bad = TLC_ALL;

    for (size_t g = 0; bad == TLC_ALL && g < s->group_count; g++) {
        const tlc_ownership_group *group = tlc_sender_group(s, g);
        for (size_t i = 0; s->ctx[g] && !tlc_sender_given(s, g) && bad == TLC_ALL && i < group->count; i++) {
            size_t p = tlc_group_index(s, group, i);
            const tlc_input in = {.k = s->x->k, .dtype = s->dtype, .grad = s->source[p]};
            if (s->source[p] && tlc_input_absmax(&in, 0, tlc_sender_part(s, p)->n) >= TLC_F32_INF)
                bad = p;
        }
    }
    tlc_float_leave(mode);
    return bad;
}

const void *tlc_group_values(const tlc_sender *s, const tlc_ownership_group *group)
{
    size_t size = tlc_dtype_size(s->dtype);
    uint8_t *at = s->gathered;

    if (!group->shared)
        return s->source[tlc_group_index(s, group, 0)];
    for (size_t i = 0; i < group->count; i++) {
        size_t bytes = tlc_group_part(s, group, i)->n * size;
        memcpy(at, s->source[tlc_group_index(s, group, i)], bytes);
        at += bytes;
    }
    return s->gathered;
}

/* ---- messages that are kept -------------------------------------------------------------------------------------- */

const tlc_outgoing *tlc_sender_find(const tlc_sender *s, uint64_t step, uint32_t i)
{
    const tlc_outgoing *out = tlc_sender_slot(s, step, i);
    return out->step == step && out->message.len ? out : NULL;
}

tlc_status tlc_sender_again(const tlc_sender *s, uint64_t now, uint64_t step, tlc_message *message)
{
    const tlc_outgoing *out = tlc_sender_find(s, step, 0);

    if (!message)
        return tlc_refuse_null(s->x, "the place for the message");
    if (step >= now)
        return tlc_refuse(s->x, TLC_ERR_ORDER, TLC_ALL, "there is no message of step %llu yet; this is step %llu",
                          (unsigned long long)step, (unsigned long long)*s->x->step);
    if (!out)
        return tlc_refuse(s->x, TLC_ERR_PARAM, TLC_ALL,
                          "the message of step %llu is not kept; this is step %llu, and the last %u are kept at most",
                          (unsigned long long)step, (unsigned long long)*s->x->step, s->slots);
    *message = out->message;
    return TLC_OK;
}

void tlc_sender_forget(tlc_sender *s)
{
    for (size_t i = 0; i < (size_t)s->slots * s->messages; i++)
        s->out[i].message.len = s->out[i].bundle.len = 0;
}
