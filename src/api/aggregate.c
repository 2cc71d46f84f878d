/* SPDX-License-Identifier: MIT
 *
 * The aggregation of natural frames, as in the server of IntML (Horvath et al., "Natural compression", 2019): many
 * frames are decoded and added, and the sum is compressed into one frame.
 *
 * Rounding is without bias only if the words of the sum are independent of those that rounded the frames. So they come
 * from indices that no tensor has.
 */
#include "../codec/arguments.h"
#include "../frames/bounds.h"
#include "../frames/decode.h"
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "../common/structs.h"
#include "../frames/formats.h"
#include <threelc/frames.h>

/* Reads and checks a frame. It must match the first one, if that is not NULL. */
static tlc_status read_frame(tlc_frame *f, tlc_message message, const tlc_frame *first, tlc_text *w)
{
    size_t n = first ? (size_t)first->n : 0;
    uint8_t ids[2], first_ids[2];
    tlc_status status;

    if (!message.data && message.len)
        return TLC_FAIL(w, TLC_ERR_PARAM, "data is NULL, but len is %zu", message.len);
    status = tlc_frame_read(f, message.data, message.len, first ? &n : NULL, 1);
    if (!status && !tlc_decode_check(tlc_kernels_for(TLC_ISA_AUTO), f))
        status = TLC_ERR_CORRUPT;
    if (status) {
        tlc_frame_say_fault(w, f, message.data, message.len, &n);
        return status;
    }
    if (f->codec.quantizer != &tlc_stage_natural || f->codec.block)
        return TLC_FAIL(w, TLC_ERR_UNSUPPORTED, "its codec is \"%s\"%s: natural without blocks can be aggregated",
                        f->codec.quantizer->name, f->codec.block ? " with blocks" : "");
    if (!first)
        return TLC_OK;
    tlc_codec_ids(&f->codec, 0, ids);
    tlc_codec_ids(&first->codec, 0, first_ids);
    return ids[1] == first_ids[1] ? TLC_OK
                                  : TLC_FAIL(w, TLC_ERR_PARAM, "its bits or its shift are not those of frame 0");
}

/* Reads and checks all frames. */
static tlc_status read_frames(tlc_frame *first, const tlc_message *frames, size_t count, tlc_text *w)
{
    tlc_status status = TLC_OK;
    tlc_frame other;

    for (size_t i = 0; !status && i < count; i++) {
        const size_t begin = w->at;
        tlc_text_format(w, "frame %zu: ", i);
        status = read_frame(i ? &other : first, frames[i], i ? first : NULL, w);
        if (!status)
            tlc_text_cut(w, begin);
    }
    return status;
}

#define SUM_WORDS (UINT64_C(1) << 63) /* the index of the first random word of the sum */

typedef struct aggregation {
    const tlc_message *frames;
    size_t count;
    tlc_unit unit; /* of the result */
    tlc_layout layout;
} aggregation;

/* The codes of a chunk in a payload. */
static void codes_at(const aggregation *a, const uint8_t *payload, size_t at, const uint8_t *codes[2])
{
    (void)tlc_codes_planes(&a->layout, a->unit.n, payload, codes);
    codes[0] += at / 8 * a->layout.bits[0];
    codes[1] += at / 8 * a->layout.bits[1];
}

/* Adds up a chunk of all frames. They were checked before, so only the place of their codes is needed. */
static void sum_chunk(const aggregation *a, size_t at, size_t count, float *sum)
{
    const uint8_t *codes[2];
    float values[TLC_CHUNK];

    memset(sum, 0, count * sizeof *sum);
    for (size_t i = 0; i < a->count; i++) {
        const uint8_t *src = a->frames[i].data;
        size_t end = a->frames[i].len - (src[1] & TLC_FRAME_CHECKSUM ? TLC_CHECKSUM_SIZE : 0);
        codes_at(a, src + end - tlc_codes_planes(&a->layout, a->unit.n, src, codes), at, codes);
        a->unit.quantizer->decode(&a->unit, codes, count, values);
        a->unit.k->values_add(values, count, 1.0f, 0, sum);
    }
}

/* Returns the payload's length. */
static size_t aggregate(const aggregation *a, uint8_t *payload)
{
    const uint8_t *codes[2];
    float sum[TLC_CHUNK];
    uint64_t clipped = 0;

    for (size_t at = 0; at < a->unit.n; at += TLC_CHUNK) {
        tlc_chunk c = {.at = at, .count = tlc_smaller((size_t)a->unit.n - at, TLC_CHUNK), .x = sum};
        sum_chunk(a, at, c.count, sum);
        codes_at(a, payload, at, codes);
        c.codes[0] = payload + (codes[0] - payload);
        c.codes[1] = payload + (codes[1] - payload);
        clipped += a->unit.quantizer->encode(&a->unit, &c);
    }
    tlc_store32(payload, clipped < UINT32_MAX ? (uint32_t)clipped : UINT32_MAX);
    return (size_t)tlc_codes_planes(&a->layout, a->unit.n, payload, codes);
}

tlc_status tlc_natural_aggregate(const tlc_message *frames, size_t count, const tlc_natural_aggregate_params *params,
                                 void *dst, size_t cap, size_t *written)
{
    tlc_natural_aggregate_params p = {0};
    tlc_frame first;
    tlc_status status;
    size_t at;

    if (params && !tlc_import(&p, sizeof p, params))
        return TLC_ERR_PARAM;
    tlc_text w = tlc_text_in(p.message, p.message_cap);
    if (!frames || !count || !dst || !written)
        return TLC_FAIL(&w, TLC_ERR_PARAM, "%s",
                        !count    ? "count is 0"
                        : !frames ? "frames is NULL"
                        : !dst    ? "dst is NULL"
                                  : "written is NULL");
    if (p.rounding != TLC_ROUND_RANDOM && p.rounding != TLC_ROUND_NEAREST)
        return TLC_FAIL(&w, TLC_ERR_PARAM, "rounding is %d: TLC_ROUND_RANDOM (0) or TLC_ROUND_NEAREST (1)",
                        (int)p.rounding);
    if ((status = tlc_isa_check(TLC_ISA_AUTO, &w)))
        return status;
    status = read_frames(&first, frames, count, &w);
    if (status)
        return status;
    status = tlc_frame_room(&first.codec, first.dtype, first.checksum, (size_t)first.n, cap, &w);
    if (status)
        return status;
    const tlc_quantizer *natural = tlc_stage_natural.quantize;
    const tlc_random random = {p.seed, p.step, SUM_WORDS};
    first.codec.params[TLC_NATURAL_ROUNDING] = p.rounding == TLC_ROUND_NEAREST;
    const aggregation a = {
        .frames = frames,
        .count = count,
        .unit = {.k = tlc_kernels_for(TLC_ISA_AUTO),
                 .quantizer = natural,
                 .params = first.codec.params,
                 .n = first.n,
                 .dtype = first.dtype,
                 .random = &random},
        .layout = natural->layout(first.codec.params, first.dtype),
    };
    tlc_float_mode mode = tlc_float_enter();
    at = tlc_frame_write(dst, &first.codec, first.dtype, first.checksum, (size_t)first.n, NULL);
    if (first.n)
        at += aggregate(&a, (uint8_t *)dst + at);
    tlc_float_leave(mode);
    if (first.checksum) {
        tlc_frame_seal(dst, at);
        at += TLC_CHECKSUM_SIZE;
    }
    *written = at;
    return TLC_OK;
}
