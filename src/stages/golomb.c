/* SPDX-License-Identifier: MIT
 *
 * Golomb-coded positions (Sparse Binary Compression, algorithms 3 and 4): the distances between symbols that are not 0;
 * for 3-value symbols with a sign bit each. golomb.h in the folder above draws the stream.
 *
 * For 3-value symbols the payload is the stream only if that is strictly shorter than quartic's ceil(n / 5) bytes, else
 * it has its second form: quartic's bytes.
 */
#include "../golomb/golomb.h"
#include "scatter.h"
#include <threelc/stages.h>

enum { WORD = 64 };

static int has_signs(const tlc_codec *codec)
{
    return codec->value->out == TLC_KIND_TERNARY;
}

static size_t quartic_size(uint64_t n)
{
    return (size_t)tlc_ceil_div(n, 5);
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return has_signs(codec) ? tlc_ceil_div(n, 5) : tlc_golomb_bound(n, codec->value->value->most(codec, n), 0);
}

/* Masks of the symbols that are not 0 and of those that are negative. */
static uint64_t scratch(const tlc_codec *codec, uint64_t n)
{
    return tlc_ceil_div(n, WORD) * sizeof(uint64_t) * (has_signs(codec) ? 2 : 1);
}

/* A position is a word of the masks. */
static uint64_t positions(const tlc_codec *codec, uint64_t n)
{
    (void)codec;
    return tlc_ceil_div(n, WORD);
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static uint64_t *negative(const tlc_unit *u)
{
    return has_signs(u->codec) ? u->work->scratch + tlc_ceil_div(u->n, WORD) : NULL;
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    size_t end = to * WORD < u->n ? to * WORD : (size_t)u->n;
    const tlc_value_ops *value = u->codec->value->value;
    int8_t q[TLC_PIECE];
    uint64_t k = 0;

    (void)dst;
    for (size_t at = from * WORD, count; at < end; at += count) {
        count = end - at < TLC_PIECE ? end - at : TLC_PIECE;
        if (!has_signs(u->codec)) {
            k += value->mask(u, at, count, u->work->scratch + at / WORD);
            continue;
        }
        value->symbols(u, at, count, q);
        k += u->k->symbol_masks(q, count, u->work->scratch + at / WORD, negative(u) + at / WORD);
    }
    return k;
}

/* Eight bits of a mask from bit at on; there are that many, or what is read beyond them does not matter. */
static unsigned eight_bits(const uint64_t *mask, size_t at, size_t words)
{
    uint64_t low = mask[at / WORD] >> at % WORD;
    uint64_t high = at % WORD > WORD - 8 && at / WORD + 1 < words ? mask[at / WORD + 1] << (WORD - at % WORD) : 0;
    return (unsigned)((low | high) & 0xff);
}

/* Eight bits as bytes 0 and 1, the lowest bit first in memory. */
static uint64_t spread(unsigned bits)
{
    uint64_t ends = (bits & 0x7f) * UINT64_C(0x02040810204081) & UINT64_C(0x0101010101010101);
    return ends | (uint64_t)(bits >> 7) << 56;
}

/* The symbols, which have signs, from at on; up to 7 more than count are written. */
static void symbols_from(const tlc_unit *u, size_t at, size_t count, int8_t *q)
{
    size_t words = (size_t)tlc_ceil_div(u->n, WORD);
    const uint64_t *set = u->work->scratch, *below = set + words;

    for (size_t i = 0; i < count; i += 8) {
        uint64_t any = spread(eight_bits(set, at + i, words)), minus = spread(eight_bits(below, at + i, words));
        tlc_store64(q + i, any | minus * 0xff); /* 1, or 255 where negative */
    }
}

static size_t quartic(const tlc_unit *u, uint8_t *dst)
{
    int8_t symbols[5][TLC_PIECE + 8];
    size_t len = quartic_size(u->n), n = (size_t)u->n;
    const int8_t *q[5];

    for (size_t at = 0, count; at < len; at += count) {
        count = len - at < TLC_PIECE ? len - at : TLC_PIECE;
        for (size_t k = 0; k < 5; k++) {
            size_t index = k * len + at, some = index >= n ? 0 : n - index < count ? n - index : count;
            q[k] = symbols[k];
            symbols_from(u, index, some, symbols[k]);
            memset(symbols[k] + some, -1, count - some); /* digit 0 */
        }
        u->k->quartic_encode(q, count, dst + at);
    }
    return len;
}

static size_t finish(tlc_unit *u, uint8_t *payload, uint64_t k)
{
    size_t cap = (size_t)bound(u->codec, u->dtype, u->n) - (size_t)has_signs(u->codec);
    size_t len = tlc_golomb_write(u->work->scratch, negative(u), u->n, k, payload, cap);

    if (len)
        return len;
    u->second = 1; /* binary symbols always fit their bound */
    return quartic(u, payload);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    tlc_golomb_reader reader;
    size_t size;

    if (u->second)
        return tlc_stage_quartic.coder->check(u, src, len);
    if (has_signs(u->codec) && len >= tlc_ceil_div(u->n, 5))
        return 0;
    return tlc_golomb_open(&reader, src, len, u->n, has_signs(u->codec)) && tlc_golomb_check(&reader, &size) &&
           size == len;
}

static void backward_all(const tlc_unit *u, const uint8_t *src, size_t len)
{
    const float sent[2] = {u->scalars[0], -u->scalars[0]};
    float value[TLC_BATCH];
    uint8_t minus[TLC_BATCH] = {0};
    size_t index[TLC_BATCH], count;
    tlc_golomb_reader reader;
    tlc_scatter s;

    if (u->second) {
        tlc_stage_quartic.coder->backward(u, 0, len, src);
        return;
    }
    (void)tlc_golomb_open(&reader, src, len, u->n, has_signs(u->codec));
    tlc_scatter_begin(&s, u);
    while ((count = tlc_golomb_next(&reader, index, has_signs(u->codec) ? minus : NULL, TLC_BATCH)) > 0) {
        for (size_t i = 0; i < count; i++)
            value[i] = sent[minus[i]];
        tlc_scatter_batch(&s, index, value, count);
    }
    tlc_scatter_end(&s);
}

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    tlc_golomb_reader reader;

    if (u->second)
        return tlc_stage_quartic.coder->nonzero(u, src, len);
    (void)tlc_golomb_open(&reader, src, len, u->n, has_signs(u->codec));
    return reader.k;
}

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .scratch = scratch,
    .positions = positions,
    .width = tlc_layout_none,
    .has_second = has_signs,
    .forward = forward,
    .finish = finish,
    .check = check,
    .backward_all = backward_all,
    .nonzero = nonzero,
};

const tlc_stage tlc_stage_golomb = {
    .name = "golomb",
    .id = 2,
    .in = TLC_KIND_TERNARY | TLC_KIND_BINARY,
    .out = TLC_KIND_BYTES,
    .coder = &coder_ops,
    .meaning = "Golomb-coded positions of what is not 0; quartic bytes where those are fewer",
    .source = "Sattler, Wiedemann, Mueller, Samek, Sparse Binary Compression, 2018, algorithms 3 and 4",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

size_t tlc_golomb_size(size_t n, size_t k, int signs)
{
    tlc_float_mode mode = tlc_float_enter();
    uint64_t size = tlc_golomb_bound(n, k < n ? k : n, signs != 0);

    tlc_float_leave(mode);
    return size < SIZE_MAX ? (size_t)size : SIZE_MAX;
}

tlc_status tlc_golomb_encode(const int8_t *q, size_t n, int signs, uint64_t *scratch, void *dst, size_t cap,
                             size_t *written)
{
    uint64_t *minus = scratch ? scratch + tlc_ceil_div(n, WORD) : NULL, any_minus = 0;

    if ((n && (!q || !scratch)) || !dst || !written || !tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    uint64_t k = tlc_kernels_for(TLC_ISA_AUTO)->symbol_masks(q, n, scratch, minus);
    for (size_t i = 0; !signs && i * WORD < n; i++)
        any_minus |= minus[i];
    if (any_minus)
        return TLC_ERR_PARAM;
    size_t len = 0;
    tlc_float_mode mode = tlc_float_enter();
    /* A writer that runs out of room has changed dst by then. */
    if (cap >= tlc_golomb_bound(n, k, signs != 0) || cap >= tlc_golomb_length(scratch, n, k, signs))
        len = tlc_golomb_write(scratch, signs ? minus : NULL, n, k, dst, cap);
    tlc_float_leave(mode);
    if (!len)
        return TLC_ERR_CAPACITY;
    *written = len;
    return TLC_OK;
}

tlc_status tlc_golomb_decode(const void *src, size_t len, int signs, int8_t *q, size_t n)
{
    uint8_t minus[TLC_BATCH] = {0};
    size_t index[TLC_BATCH], count, size;
    tlc_golomb_reader reader;

    if ((len && !src) || (n && !q))
        return TLC_ERR_PARAM;
    if (!tlc_golomb_open(&reader, src, len, n, signs != 0) || !tlc_golomb_check(&reader, &size) || size != len)
        return TLC_ERR_CORRUPT;
    if (n)
        memset(q, 0, n);
    while ((count = tlc_golomb_next(&reader, index, signs ? minus : NULL, TLC_BATCH)) > 0)
        for (size_t i = 0; i < count; i++)
            q[index[i]] = minus[i] ? -1 : 1;
    return TLC_OK;
}
