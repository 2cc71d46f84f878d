/* SPDX-License-Identifier: MIT
 *
 * Sparsification: about the largest p of the magnitudes, found by a threshold from a sorted sample, as 3LC's comparison
 * "25%, 5% sparsification" has it (section 5.1; Aji and Heafield, 2017).
 * Payload: a bitmap of ceil(n / 8) bytes, bit i % 8 of byte i / 8, 0 beyond n; then a f32 for each bit that is set.
 */
#include "alone.h"
#include "pieces.h"
#include "rank.h"
#include "scatter.h"
#include "share.h"
#include <threelc/stages.h>

enum { SAMPLES = 4096 };

static uint64_t bitmap_size(uint64_t n)
{
    return tlc_ceil_div(n, 8);
}

/* The most values that are sent. */
static uint64_t most(const tlc_codec *codec, uint64_t n)
{
    uint64_t twice = tlc_product(tlc_share_up(codec->params[0], n), 2);
    return twice < n ? twice : n;
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return tlc_sum(bitmap_size(n), tlc_product(most(codec, n), sizeof(float)));
}

/* ---- the threshold ----------------------------------------------------------------------------------------------- */

/* Magnitudes of m values, the j-th at random within the j-th of m equal stretches. */
static void sample(const tlc_unit *u, size_t m, uint32_t *magnitudes)
{
    size_t stretch = (size_t)u->n / m;
    uint32_t words[SAMPLES];
    float buf[1];

    tlc_unit_words(u, 0, m, words);
    for (size_t j = 0; j < m; j++) {
        size_t index = u->first + j * stretch + words[j] % stretch;
        magnitudes[j] = tlc_float_bits(*tlc_input_values(&u->input, index, 1, buf)) & TLC_F32_ABS;
    }
}

static void prepare(tlc_unit *u, uint32_t max)
{
    size_t m = u->n < SAMPLES ? (size_t)u->n : SAMPLES;
    uint32_t magnitudes[SAMPLES];

    (void)max;
    sample(u, m, magnitudes);
    uint32_t least = tlc_ranked(magnitudes, m, (size_t)tlc_share_up(u->codec->params[0], m));
    u->work->members = (tlc_members){.keep = TLC_F32_ABS, .least = least ? (int32_t)least : 1, .last = UINT64_MAX};
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* Appends the values whose bits are set, as long as there is room; the others' bits become 0. */
static uint8_t *append(uint64_t *bits, const float *x, float *r, uint64_t *room, uint8_t *values)
{
    for (uint64_t left = *bits; left; left &= left - 1, values += sizeof(float)) {
        size_t i = (size_t)__builtin_ctzll(left);
        if (!*room) {
            *bits &= ~left;
            break;
        }
        --*room;
        tlc_store32(values, tlc_float_bits(x[i]));
        if (r)
            r[i] = 0.0f; /* x - x */
    }
    return values;
}

static size_t finish(tlc_unit *u, uint8_t *payload, uint64_t unused)
{
    uint8_t *values = payload + bitmap_size(u->n);
    uint64_t mask[TLC_PIECE / 64], room = most(u->codec, u->n);
    float buf[TLC_PIECE];
    const tlc_members *m = &u->work->members;

    (void)unused;
    for (size_t at = 0, count; at < u->n; at += count) {
        count = u->n - at < TLC_PIECE ? (size_t)(u->n - at) : TLC_PIECE;
        const float *x = tlc_input_values(&u->input, u->first + at, count, buf);
        float *r = u->input.residual ? u->input.residual + u->first + at : NULL;

        (void)u->k->threshold_mask(x, count, m->flip, m->keep, m->least, mask);
        for (size_t i = 0; i < count; i += 64) {
            values = append(&mask[i / 64], x + i, r ? r + i : NULL, &room, values);
            for (size_t byte = 0; byte < 8 && i + 8 * byte < count; byte++)
                payload[(at + i) / 8 + byte] = (uint8_t)(mask[i / 64] >> (8 * byte));
        }
    }
    return (size_t)(values - payload);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    (void)len;
    return u->k->ones(src, (size_t)bitmap_size(u->n));
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    uint64_t bitmap = bitmap_size(u->n), k;

    if (len < bitmap || !tlc_bits_padding(src, u->n))
        return 0;
    k = u->k->ones(src, (size_t)bitmap);
    return (len - bitmap) % sizeof(float) == 0 && (len - bitmap) / sizeof(float) == k &&
           tlc_sent_values_valid(src + bitmap, (size_t)k);
}

/* The mask of count <= TLC_PIECE values from at on, a multiple of 64. */
static void load_mask(const uint8_t *bitmap, size_t at, size_t count, uint64_t *mask)
{
    tlc_copy_le(mask, bitmap + at / 8, count / 64, sizeof *mask);
    if (count % 64)
        mask[count / 64] = 0;
    for (size_t i = count - count % 64; i < count; i += 8)
        mask[i / 64] |= (uint64_t)bitmap[(at + i) / 8] << i % 64;
}

static void backward_all(const tlc_unit *u, const uint8_t *src, size_t len)
{
    const uint8_t *values = src + bitmap_size(u->n), *end = src + len;
    uint64_t mask[TLC_PIECE / 64];

    for (size_t at = 0, count; at < u->n; at += count) {
        count = u->n - at < TLC_PIECE ? (size_t)(u->n - at) : TLC_PIECE;
        load_mask(src, at, count, mask);
        values = tlc_expand_stored(u, at, count, mask, values, end);
    }
}

static const tlc_param params[] = {TLC_SHARE_PARAM(0.05, "share of the values that are sent, about")};

static const tlc_value_ops value_ops = {.feedback = 1, .has_zero = 1, .accumulates = 1, .prepare = prepare};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = tlc_layout_values,
    .width = tlc_layout_none,
    .finish = finish,
    .check = check,
    .backward_all = backward_all,
    .nonzero = nonzero,
};

const tlc_stage tlc_stage_topk = {
    .name = "topk",
    .id = 8,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .params = params,
    .param_count = 1,
    .value = &value_ops,
    .coder = &coder_ops,
    .meaning = "the largest p of the magnitudes, by a sampled threshold, as they are",
    .source = "Aji, Heafield, Sparse communication, 2017; Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (sparsification)",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

tlc_status tlc_topk_encode(const float *x, size_t n, double p, uint64_t seed, uint64_t step, void *dst, size_t cap,
                           float *residual, size_t *written)
{
    return tlc_alone_encode(&tlc_stage_topk, &p, x, n, seed, step, NULL, dst, cap, residual, written);
}

tlc_status tlc_topk_decode(const void *src, size_t len, float *out, size_t n)
{
    static const double any_p = 1.0;
    return tlc_alone_decode(&tlc_stage_topk, &any_p, src, len, out, n);
}
