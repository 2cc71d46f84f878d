/* SPDX-License-Identifier: MIT
 *
 * What happens to the residuals of a sender besides compression.
 */
#include "../../common/structs.h"
#include "../../api/context.h"
#include "../../values/input.h"
#include "../plan/refusal.h"
#include "sender.h"

/* ---- residuals of shared groups ---------------------------------------------------------------------------------- */

/* Copies between the residual of a group and those of its parts that lie elsewhere. */
static void copy_parts(const tlc_sender *s, size_t g, int store)
{
    const tlc_ownership_group *group = tlc_sender_group(s, g);
    float *at = s->together[g];

    for (size_t i = 0; at && group->shared && i < group->count; i++) {
        float *own = s->residual[tlc_group_index(s, group, i)];
        size_t n = tlc_group_part(s, group, i)->n;
        if (own != at)
            memcpy(store ? own : at, store ? at : own, n * sizeof *at);
        at += n;
    }
}

void tlc_residual_fetch(const tlc_sender *s, size_t g)
{
    copy_parts(s, g, 0);
}

void tlc_residual_store(const tlc_sender *s, size_t g)
{
    copy_parts(s, g, 1);
}

/* ---- frames that come back --------------------------------------------------------------------------------------- */

/* residual += frame of group g. Returns 0 if the codec keeps no residual. */
static int take_back(tlc_sender *s, size_t g, tlc_message frame)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = s->x->cfg.isa, .parallel = s->x->cfg.parallel};

    return s->together[g] &&
           !tlc_decompress_add(frame.data, frame.len, 1, s->together[g], tlc_sender_group(s, g)->n, &opt);
}

/* residual -= values of group g. */
static void subtract(const tlc_sender *s, size_t g)
{
    const tlc_ownership_group *group = tlc_sender_group(s, g);
    const tlc_input in = {.k = s->x->k, .dtype = s->dtype, .grad = tlc_group_values(s, group)};
    tlc_float_mode mode = tlc_float_enter();
    float buf[TLC_CHUNK], *r = s->together[g];

    for (size_t at = 0; at < group->n; at += TLC_CHUNK) {
        size_t count = tlc_smaller(group->n - at, TLC_CHUNK);
        const float *v = tlc_input_gradient(&in, at, count, buf);
        for (size_t i = 0; i < count; i++)
            r[at + i] -= v[i];
    }
    tlc_float_leave(mode);
}

/* Returns the frames of a message, minus the values if asked for. */
static uint64_t return_frames(tlc_sender *s, const tlc_outgoing *out, uint32_t i, int minus)
{
    tlc_bundle_reader r;
    uint64_t lost = 0;

    if (tlc_bundle_open(&r, out->bundle.data, out->bundle.len)) /* nothing was encoded */
        return 0;
    for (size_t g = tlc_sender_begin(s, i); g < tlc_sender_begin(s, i + 1); g++) {
        tlc_message frame;
        (void)tlc_bundle_next(&r, &frame.data, &frame.len);
        if (!frame.len || (minus && tlc_sender_given(s, g)))
            continue;
        tlc_residual_fetch(s, g);
        if (!take_back(s, g, frame))
            lost += tlc_sender_group(s, g)->n;
        else if (minus)
            subtract(s, g);
        tlc_residual_store(s, g);
    }
    return lost;
}

uint64_t tlc_sender_return(tlc_sender *s, uint64_t step, uint32_t i)
{
    return return_frames(s, tlc_sender_slot(s, step, i), i, 0);
}

void tlc_sender_undo(tlc_sender *s, uint64_t step)
{
    for (uint32_t i = 0; i < s->messages; i++) {
        tlc_outgoing *out = tlc_sender_slot(s, step, i);
        (void)return_frames(s, out, i, 1);
        out->bundle.len = out->message.len = 0;
    }
}

/* ---- the caller's wishes ----------------------------------------------------------------------------------------- */

void tlc_sender_mask(const tlc_sender *s, uint64_t step, uint32_t i, float *const *momentum)
{
    const tlc_decode_options opt = {.struct_size = sizeof opt, .isa = s->x->cfg.isa, .parallel = s->x->cfg.parallel};
    const tlc_outgoing *out = tlc_sender_find(s, step, i);
    tlc_bundle_reader r;

    if (!out || tlc_bundle_open(&r, out->bundle.data, out->bundle.len))
        return;
    for (size_t g = tlc_sender_begin(s, i); g < tlc_sender_begin(s, i + 1); g++) {
        const tlc_ownership_group *group = tlc_sender_group(s, g);
        const tlc_ownership_part *part = tlc_group_part(s, group, 0);
        tlc_message frame;
        (void)tlc_bundle_next(&r, &frame.data, &frame.len);
        /* shared groups are raw, which has no zero; tlc_mask refuses other codecs without a zero, and empty frames */
        if (!group->shared && momentum[part->tensor])
            (void)tlc_mask(frame.data, frame.len, momentum[part->tensor] + part->first, part->n, &opt);
    }
}

tlc_status tlc_sender_scale(tlc_sender *s, float factor, int check_only)
{
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = TLC_OK;

    for (size_t g = 0; !status && g < s->group_count; g++) {
        float *r = s->together[g];
        size_t n = tlc_sender_group(s, g)->n;
        if (!r)
            continue;
        tlc_residual_fetch(s, g);
        float max = tlc_bits_float(s->x->k->absmax(NULL, r, n));
        if (!tlc_finite(max * factor))
            status = tlc_refuse(s->x, TLC_ERR_NONFINITE, tlc_group_part(s, tlc_sender_group(s, g), 0)->tensor,
                                "residual * %s is not finite", tlc_text_real((double)factor).text);
        for (size_t i = 0; !check_only && i < n; i++)
            r[i] *= factor;
        tlc_residual_store(s, g);
    }
    tlc_float_leave(mode);
    return status;
}

static tlc_status set_codec(const tlc_sender *s, size_t g, const char *codec, int check_only)
{
    const tlc_ownership_group *group = tlc_sender_group(s, g);

    if (!s->ctx[g] || group->shared)
        return TLC_OK;
    const tlc_status status = check_only ? tlc_codec_fits(s->ctx[g], codec) : tlc_set_codec(s->ctx[g], codec);
    if (status)
        (void)tlc_refuse(s->x, status, tlc_group_part(s, group, 0)->tensor,
                         "the codec \"%.63s\" does not fit here, where there is \"%.63s\"; name it in reserve", codec,
                         s->ctx[g]->codec_text);
    return status;
}

tlc_status tlc_sender_set_codec(tlc_sender *s, size_t tensor, const char *codec, int check_only)
{
    tlc_status status = TLC_OK;

    if (tensor != TLC_ALL) {
        const tlc_parts parts = tlc_sender_parts_of(s, tensor);
        for (size_t i = 0; !status && i < parts.count; i++)
            status = set_codec(s, s->group_of[tlc_parts_at(&parts, i)], codec, check_only);
        return status;
    }
    for (size_t g = 0; !status && g < s->group_count; g++)
        if (s->x->tensors[tlc_group_part(s, tlc_sender_group(s, g), 0)->tensor].common[s->direction])
            status = set_codec(s, g, codec, check_only);
    return status;
}

uint64_t tlc_sender_float_bytes(const tlc_sender *s, uint32_t i)
{
    uint64_t values = 0;

    for (size_t g = tlc_sender_begin(s, i); g < tlc_sender_begin(s, i + 1); g++)
        values += s->ctx[g] ? tlc_sender_group(s, g)->n : 0;
    return values * tlc_dtype_size(s->dtype);
}
