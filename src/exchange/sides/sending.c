/* SPDX-License-Identifier: MIT
 *
 * A sender makes messages.
 */
#include "../../api/context.h"
#include "../../frames/decode.h"
#include "../../values/input.h"
#include "../plan/refusal.h"
#include "sender.h"

/* The part of a group that could not be sent: the first one whose residual + values are not finite, or not in the dtype
 * of a raw frame, which is what several parts share. */
static size_t part_at_fault(const tlc_sender *s, const tlc_ownership_group *group)
{
    tlc_float_mode mode = tlc_float_enter();
    size_t bad = TLC_ALL;

    for (size_t i = 0; bad == TLC_ALL && i < group->count; i++) {
        size_t p = tlc_group_index(s, group, i);
        const tlc_input in = {s->x->k, s->dtype, s->source[p], s->residual[p]};
        uint32_t max = tlc_input_absmax(&in, 0, tlc_sender_part(s, p)->n);
        if (tlc_stage_raw.quantize->scale(NULL, s->dtype, max) >= TLC_F32_INF)
            bad = p;
    }
    tlc_float_leave(mode);
    return bad != TLC_ALL ? bad : tlc_group_index(s, group, 0);
}

/* With assume_finite the residual is undefined after a failure. */
static void forget_undefined(tlc_ctx *ctx)
{
    if (ctx->assume_finite)
        tlc_reset(ctx);
}

/* Is it what the context would make: whole, and of its codec? */
static int fits(const tlc_ctx *ctx, tlc_message message)
{
    uint8_t ids[2], wanted[2];
    tlc_frame f;

    if (!message.data || message.len > ctx->bound || tlc_frame_read(&f, message.data, message.len, &ctx->n, 1) ||
        !tlc_decode_check(ctx->kernels, &f))
        return 0;
    tlc_codec_ids(&f.codec, 0, ids);
    tlc_codec_ids(&ctx->codec, 0, wanted);
    return ids[0] == wanted[0] && ids[1] == wanted[1] && f.codec.block == ctx->codec.block && f.dtype == ctx->dtype &&
           f.checksum == ctx->checksum;
}

tlc_status tlc_sender_give(tlc_sender *s, size_t g, size_t i, tlc_message frame)
{
    if (frame.len && !fits(s->ctx[g], frame)) {
        tlc_sender_forget_given(s);
        return tlc_refuse(s->x, TLC_ERR_PARAM, tlc_group_part(s, tlc_sender_group(s, g), 0)->tensor,
                          "frame %zu is not a whole frame of %zu values with the codec \"%.63s\"", i, s->ctx[g]->n,
                          s->ctx[g]->codec_text);
    }
    s->given[g] = frame;
    return TLC_OK;
}

void tlc_sender_forget_given(tlc_sender *s)
{
    for (size_t g = 0; g < s->group_count; g++)
        s->given[g] = (tlc_message){NULL, 0};
}

static void add_norms(tlc_sender *s, size_t g, uint64_t step, const void *values)
{
    const tlc_input in = {s->x->k, s->dtype, values, s->together[g]};
    tlc_float_mode mode;

    if (!in.residual) /* nothing is left for later */
        return;
    mode = tlc_float_enter();
    tlc_norms_add(&s->norms, &in, tlc_sender_group(s, g)->n, step);
    tlc_float_leave(mode);
}

static tlc_status encode_group(tlc_sender *s, size_t g, uint64_t step, void *dst, size_t cap, size_t *written)
{
    const tlc_ownership_group *group = tlc_sender_group(s, g);
    tlc_ctx *ctx = s->ctx[g];
    const void *values;
    tlc_status status;

    *written = 0;
    if (!ctx)
        return TLC_OK;
    ctx->step = step;
    if (tlc_sender_given(s, g)) {
        *written = s->given[g].len;
        memcpy(dst, s->given[g].data, *written);
    } else if (s->make)
        *written = s->make(s->make_arg, g, dst, cap);
    if (*written)
        return TLC_OK;
    tlc_residual_fetch(s, g);
    values = tlc_group_values(s, group);
    status = tlc_compress(ctx, values, dst, cap, written);
    if (status)
        forget_undefined(ctx);
    else
        add_norms(s, g, step, values);
    tlc_residual_store(s, g);
    return status;
}

/* Writes the frames of message i. */
static tlc_status encode_message(tlc_sender *s, uint64_t step, uint32_t i, size_t *bad)
{
    tlc_outgoing *out = tlc_sender_slot(s, step, i);
    size_t from = tlc_sender_begin(s, i), to = tlc_sender_begin(s, i + 1), cap, len;
    tlc_status status = TLC_OK;
    tlc_bundle_writer w;
    void *dst;

    (void)tlc_bundle_init(&w, out->bundle_at, out->bundle_cap, (uint32_t)(to - from));
    for (size_t g = from; g < to; g++) {
        (void)tlc_bundle_space(&w, &dst, &cap);
        len = 0;
        if (!status) {
            status = encode_group(s, g, step, dst, cap, &len);
            if (status)
                *bad = part_at_fault(s, tlc_sender_group(s, g));
        }
        (void)tlc_bundle_commit(&w, len);
    }
    (void)tlc_bundle_finish(&w, &out->bundle);
    return status;
}

tlc_status tlc_sender_encode(tlc_sender *s, uint64_t step, size_t *bad)
{
    const tlc_norms before = s->norms;
    tlc_status status = TLC_OK;

    s->norms = (tlc_norms){0, 0};
    for (uint32_t i = 0; i < s->messages; i++) {
        tlc_outgoing *out = tlc_sender_slot(s, step, i);
        out->bundle = out->message = (tlc_message){out->bundle_at, 0};
    }
    for (uint32_t i = 0; !status && i < s->messages; i++)
        status = encode_message(s, step, i, bad);
    if (status) {
        tlc_sender_undo(s, step);
        s->norms = before;
    }
    return status;
}

uint64_t tlc_sender_accumulate(tlc_sender *s, size_t *bad)
{
    uint64_t lost = 0;

    for (size_t g = 0; g < s->group_count; g++) {
        const tlc_ownership_group *group = tlc_sender_group(s, g);
        if (!s->ctx[g])
            continue;
        tlc_residual_fetch(s, g);
        tlc_status status = tlc_accumulate(s->ctx[g], tlc_group_values(s, group));
        if (status == TLC_ERR_NONFINITE) {
            *bad = part_at_fault(s, group);
            forget_undefined(s->ctx[g]);
        }
        lost += status ? group->n : 0;
        tlc_residual_store(s, g);
    }
    return lost;
}

tlc_message tlc_sender_seal(tlc_sender *s, uint32_t i, tlc_head *head)
{
    tlc_outgoing *out = tlc_sender_slot(s, head->step, i);

    out->step = head->step;
    if (head->failed || head->absent)
        out->bundle = (tlc_message){out->bundle_at, 0};
    head->bundle = out->bundle;
    head->receiver = s->first_owner + i;
    out->message = tlc_message_write(s->x, head);
    return out->message;
}
