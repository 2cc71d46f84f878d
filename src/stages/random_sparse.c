/* SPDX-License-Identifier: MIT
 *
 * Random sparsification without bias: x / p with probability p, else 0 (Tang et al., DCD-PSGD and ECD-PSGD, 2018, footnote
 * 2). p is rounded up to a multiple of 2^-24, P, so that it is just the probability of a 24-bit random number.
 * Payload: Golomb-coded positions (golomb.h in the folder above draws them), then a f32 for each, x / P.
 */
#include "alone.h"
#include "../golomb/golomb.h"
#include "scatter.h"
#include "share.h"
#include <threelc/stages.h>

enum { WORD = 64 };

/* P in units of 2^-24. */
static uint32_t limit(const tlc_codec *codec)
{
    return (uint32_t)tlc_share_up(codec->params[0], 1u << 24);
}

static float divisor(const tlc_codec *codec)
{
    return (float)limit(codec) * 0x1p-24f;
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)codec;
    (void)dtype;
    return tlc_sum(tlc_golomb_bound(n, n, 0), tlc_product(n, sizeof(float)));
}

static uint64_t scratch(const tlc_codec *codec, uint64_t n)
{
    (void)codec;
    return tlc_ceil_div(n, WORD) * sizeof(uint64_t);
}

static tlc_status check_max(const tlc_codec *codec, tlc_dtype dtype, uint32_t max)
{
    (void)dtype;
    return tlc_finite(tlc_bits_float(max) / divisor(codec)) ? TLC_OK : TLC_ERR_NONFINITE;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* A piece: its mask, its values appended, its residual settled. */
static uint8_t *keep_piece(const tlc_unit *u, size_t at, size_t count, float P, uint8_t *values)
{
    uint64_t *mask = u->work->scratch + at / WORD;
    float wanted[TLC_PIECE], sent[TLC_PIECE];
    uint32_t words[TLC_PIECE];
    const float *x = tlc_input_values(&u->input, u->first + at, count, wanted);

    tlc_unit_words(u, at, count, words);
    (void)u->k->random_mask(x, words, count, limit(u->codec), mask);
    if (u->input.residual)
        memset(sent, 0, count * sizeof *sent);
    for (size_t w = 0; w * WORD < count; w++)
        for (uint64_t bits = mask[w]; bits; bits &= bits - 1, values += sizeof(float)) {
            size_t i = w * WORD + (size_t)__builtin_ctzll(bits);
            float value = x[i] / P;
            tlc_store32(values, tlc_float_bits(value));
            if (u->input.residual)
                sent[i] = value;
        }
    if (u->input.residual)
        tlc_input_settle(&u->input, u->first + at, count, x, sent);
    return values;
}

/* The values wait behind where the positions may reach. */
static size_t finish(tlc_unit *u, uint8_t *payload, uint64_t unused)
{
    size_t room = (size_t)tlc_golomb_bound(u->n, u->n, 0), size;
    uint8_t *values = payload + room, *end = values;
    float P = divisor(u->codec);

    (void)unused;
    for (size_t at = 0, count; at < u->n; at += count) {
        count = u->n - at < TLC_PIECE ? (size_t)(u->n - at) : TLC_PIECE;
        end = keep_piece(u, at, count, P, end);
    }
    size = (size_t)(end - values);
    size_t len = tlc_golomb_write(u->work->scratch, NULL, u->n, size / sizeof(float), payload, room);
    memmove(payload + len, values, size);
    return len + size;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    tlc_golomb_reader reader;
    size_t size;

    return tlc_golomb_open(&reader, src, len, u->n, 0) && tlc_golomb_check(&reader, &size) &&
           (len - size) % sizeof(float) == 0 && (len - size) / sizeof(float) == reader.k &&
           tlc_sent_values_valid(src + size, (size_t)reader.k);
}

static void backward_dense(const tlc_unit *u, tlc_golomb_masks *masks, const uint8_t *values, const uint8_t *end)
{
    uint64_t mask[TLC_PIECE / WORD];

    for (size_t at = 0, count; at < u->n; at += count) {
        count = u->n - at < TLC_PIECE ? (size_t)(u->n - at) : TLC_PIECE;
        tlc_golomb_masks_next(masks, mask, (size_t)tlc_ceil_div(count, WORD));
        values = tlc_expand_stored(u, at, count, mask, values, end);
    }
}

static void backward_all(const tlc_unit *u, const uint8_t *src, size_t len)
{
    size_t index[TLC_BATCH], count;
    tlc_golomb_reader reader;
    tlc_golomb_masks masks;
    tlc_scatter s;

    (void)tlc_golomb_open(&reader, src, len, u->n, 0);
    const uint8_t *values = src + len - (size_t)reader.k * sizeof(float);
    (void)tlc_golomb_open(&reader, src, (size_t)(values - src), u->n, 0);
    if (tlc_golomb_masks_begin(&masks, &reader)) {
        backward_dense(u, &masks, values, src + len);
        return;
    }
    tlc_scatter_begin(&s, u);
    while ((count = tlc_golomb_next(&reader, index, NULL, TLC_BATCH)) > 0)
        values = tlc_scatter_stored(&s, index, values, count);
    tlc_scatter_end(&s);
}

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    tlc_golomb_reader reader;

    (void)tlc_golomb_open(&reader, src, len, u->n, 0);
    return reader.k;
}

static const tlc_param params[] = {TLC_SHARE_PARAM(0.25, "probability that a value is sent")};

static const tlc_value_ops value_ops = {.has_zero = 1, .check = check_max};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .scratch = scratch,
    .positions = tlc_layout_values,
    .width = tlc_layout_none,
    .finish = finish,
    .check = check,
    .backward_all = backward_all,
    .nonzero = nonzero,
};

const tlc_stage tlc_stage_random_sparse = {
    .name = "random-sparse",
    .id = 9,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .params = params,
    .param_count = 1,
    .value = &value_ops,
    .coder = &coder_ops,
    .meaning = "x / p with probability p, else 0",
    .source = "Tang, Gan, Zhang, Zhang, Liu, DCD-PSGD and ECD-PSGD, 2018, footnote 2",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

tlc_status tlc_random_sparse_encode(const float *x, size_t n, double p, uint64_t seed, uint64_t step, uint64_t *scratch,
                                    void *dst, size_t cap, float *residual, size_t *written)
{
    return tlc_alone_encode(&tlc_stage_random_sparse, &p, x, n, seed, step, scratch, dst, cap, residual, written);
}

tlc_status tlc_random_sparse_decode(const void *src, size_t len, float *out, size_t n)
{
    static const double any_p = 1.0;
    return tlc_alone_decode(&tlc_stage_random_sparse, &any_p, src, len, out, n);
}
