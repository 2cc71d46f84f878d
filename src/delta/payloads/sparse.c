/* SPDX-License-Identifier: MIT
 *
 * Reads sparse payloads.
 */
#include "sparse.h"
#include "../../common/bits.h"
#include "../../common/bytes.h"
#include "../../common/varint.h"
#include "../../positions/golomb.h"
#include "weights.h"

enum {
    WORDS = TLC_DELTA_BLOCK / 64,
    BATCH = 256,
    WINDOW = 57 /* bits */,
    PIECE = 1664 /* weights */,
    SWEEP_FROM = 200 /* if more than one weight in this many differs, sweeps are faster than visits */
};

/* ---- magnitudes above 1 ------------------------------------------------------------------------------------------ */

/* Reads the code of |d| - 2 where it is longer than a window, so rest + r > 0. Returns 0 if it is longer than any can
 * be. */
static int take_long(tlc_bit_reader *reader, unsigned r, uint64_t *v)
{
    const unsigned rest = (unsigned)__builtin_clzll(~tlc_bits_window(reader) | 1);

    if (rest + r > WINDOW)
        return 0;
    reader->bit += rest + 1;
    *v = (tlc_bits_window(reader) >> (64 - rest - r) | (uint64_t)1 << (rest + r)) - ((uint64_t)1 << r);
    reader->bit += rest + r;
    return 1;
}

/* Reads `count` |d|. Returns 0 if weights of `width` bits cannot have one of them. */
static int take_magnitudes(tlc_bit_reader *reader, unsigned r, unsigned width, uint32_t *magnitude, size_t count)
{
    const uint64_t most = ((uint64_t)1 << (width - 1)) - 2;
    int valid = 1;

    for (size_t i = 0; valid && i < count;) {
        uint64_t window = tlc_bits_window(reader), v = 0;
        unsigned used = 0, rest, bits;

        for (; i < count; i++, window <<= bits, used += bits) { /* as many codes as a window has */
            rest = (unsigned)__builtin_clzll(~window | 1);
            bits = 2 * rest + 1 + r;
            if (used + bits > WINDOW)
                break;
            v = window << (rest + 1) >> 1 >> (63 - rest - r) | (uint64_t)1 << (rest + r);
            v -= (uint64_t)1 << r;
            magnitude[i] = (uint32_t)v + 2;
            valid &= v <= most;
        }
        reader->bit += used;
        if (used)
            continue;
        valid &= take_long(reader, r, &v) && v <= most;
        magnitude[i++] = (uint32_t)v + 2;
    }
    return valid;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The three lists of a payload. */
typedef struct lists {
    tlc_golomb_reader changed, large;
    size_t changed_len, large_len; /* bytes; large_len 0: there are no large ones */
    tlc_bit_reader magnitudes;
    unsigned order;
} lists;

/* Opens positions after their length. Returns 0 if they are not positions of n values. */
static int open_positions(tlc_golomb_reader *reader, size_t *length, const tlc_kernels *k, const uint8_t *src,
                          size_t len, size_t *at, uint64_t n, int signs)
{
    uint64_t bytes;

    if (!tlc_varint_read(src, len, at, &bytes) || bytes > len - *at)
        return 0;
    if (bytes && !tlc_golomb_open(reader, k, src + *at, len - *at, n, signs))
        return 0;
    *length = (size_t)bytes;
    *at += *length;
    return 1;
}

static int open_lists(lists *s, const tlc_delta_weights *w, const uint8_t *src, size_t len)
{
    size_t at = 0;

    if (!open_positions(&s->changed, &s->changed_len, w->k, src, len, &at, w->n, 1) || !s->changed_len ||
        !open_positions(&s->large, &s->large_len, w->k, src, len, &at, s->changed.k, 0))
        return 0;
    if (!s->large_len)
        return at == len;
    if (!s->large.k || at == len)
        return 0;
    s->order = src[at++];
    s->magnitudes = (tlc_bit_reader){src + at, len - at, 0};
    return s->order <= TLC_DELTA_ORDER_MAX;
}

static int check_magnitudes(const lists *s, unsigned width)
{
    tlc_bit_reader r = s->magnitudes;
    uint32_t magnitude[BATCH];

    for (uint64_t left = s->large.k; left;) {
        const size_t count = left < BATCH ? (size_t)left : BATCH;
        if (!take_magnitudes(&r, s->order, width, magnitude, count) || r.bit > (uint64_t)r.size * 8)
            return 0;
        left -= count;
    }
    return tlc_bits_ended(&r);
}

/* The lists were opened; those of positions may be skipped already. */
static int check_lists(const lists *s, unsigned width)
{
    size_t size;

    if (!tlc_golomb_check(&s->changed, &size) || size != s->changed_len)
        return 0;
    return !s->large_len || (tlc_golomb_check(&s->large, &size) && size == s->large_len && check_magnitudes(s, width));
}

int tlc_delta_sparse_check(const tlc_delta_block *const *blocks, size_t count, uint64_t *changed)
{
    lists s[TLC_DELTA_TOGETHER];
    tlc_golomb_reader *readers[2][TLC_DELTA_TOGETHER] = {{NULL}};
    size_t large = 0;

    *changed = 0;
    for (size_t i = 0; i < count; i++) {
        if (!open_lists(&s[i], &blocks[i]->weights, blocks[i]->src, blocks[i]->len))
            return 0;
        readers[0][i] = &s[i].changed;
        if (s[i].large_len)
            readers[1][large++] = &s[i].large;
        *changed += s[i].changed.k;
    }
    tlc_golomb_skip_together(readers[0], count);
    tlc_golomb_skip_together(readers[1], large);
    for (size_t i = 0; i < count; i++)
        if (!check_lists(&s[i], tlc_unit_width(tlc_delta_unit(blocks[i]->weights.dtype))))
            return 0;
    return 1;
}

/* Which of the weights that differ have |d| > 1, one after the other. */
typedef struct large_ones {
    lists *s;
    size_t index[BATCH], count, at; /* their numbers among those that differ */
    uint32_t magnitude[BATCH];
} large_ones;

/* Is the next one among the first `end` that differ? */
TLC_DELTA_INLINE int has_large(large_ones *l, uint64_t end, tlc_weight_unit unit)
{
    if (l->at == l->count && l->s->large_len) {
        l->at = 0;
        l->count = tlc_golomb_next(&l->s->large, l->index, NULL, BATCH);
        (void)take_magnitudes(&l->s->magnitudes, l->s->order, tlc_unit_width(unit), l->magnitude, l->count);
    }
    return l->at < l->count && l->index[l->at] < end;
}

TLC_DELTA_INLINE void move(uint8_t *weights, size_t i, uint32_t magnitude, unsigned negative, tlc_weight_unit unit)
{
    tlc_weight_store(weights, i, unit, tlc_next_weight(tlc_weight_load(weights, i, unit), magnitude, negative, unit));
}

/* All units of a block; a constant, so that nothing is compared with it. */
#define ALL ((tlc_delta_window){0, SIZE_MAX})

TLC_DELTA_INLINE int is_in(tlc_delta_window window, size_t i)
{
    return window.end == SIZE_MAX || i - window.first < window.end - window.first;
}

/* Of the next `count` weights that differ, those with |d| > 1 move by |d| - 1. number: how many differ before these. */
TLC_DELTA_INLINE void move_large(large_ones *large, tlc_delta_window window, uint8_t *weights, const size_t *index,
                                 const uint8_t *negative, uint64_t number, size_t count, tlc_weight_unit unit)
{
    for (; has_large(large, number + count, unit); large->at++) {
        const size_t i = (size_t)(large->index[large->at] - number);
        if (is_in(window, index[i]))
            move(weights, index[i] - window.first, large->magnitude[large->at] - 1, negative[i], unit);
    }
}

/* Few differ: these are visited. */
TLC_DELTA_INLINE void visit(lists *s, large_ones *large, tlc_delta_window window, uint8_t *weights,
                            tlc_weight_unit unit)
{
    size_t index[BATCH], count;
    uint8_t negative[BATCH];

    for (uint64_t number = 0; (count = tlc_golomb_next(&s->changed, index, negative, BATCH)); number += count) {
        for (size_t i = 0; i < count; i++)
            if (is_in(window, index[i]))
                __builtin_prefetch(weights + tlc_unit_offset(unit, index[i] - window.first), 1);
        for (size_t i = 0; i < count; i++)
            if (is_in(window, index[i]))
                move(weights, index[i] - window.first, 1, negative[i], unit);
        move_large(large, window, weights, index, negative, number, count, unit);
        if (index[count - 1] >= window.end)
            return;
    }
}

/* How many that differ are among some PIECE weights, about. Positions are read four at a time. */
static size_t batch_of(uint64_t k, size_t n)
{
    const uint64_t batch = k * PIECE / n / 4 * 4;
    return batch < 16 ? 16 : batch > BATCH ? BATCH : (size_t)batch;
}

/* Is there a kernel that moves many of these units? The others are visited. */
TLC_DELTA_INLINE int is_swept(tlc_weight_unit unit)
{
    return unit == TLC_UNIT_F32 || unit == TLC_UNIT_F16;
}

TLC_DELTA_INLINE void move_masked(const tlc_kernels *k, uint8_t *weights, size_t n, const uint64_t *changed,
                                  const uint64_t *minus, tlc_weight_unit unit)
{
    (unit == TLC_UNIT_F32 ? k->delta_move32 : k->delta_move16)(weights, n, changed, minus);
}

/* Positions become masks, and the weights are swept, a small piece at a time: while the processor waits for the weights
 * of one piece, it reads the positions of the next one. */
TLC_DELTA_INLINE void sweep(lists *s, large_ones *large, const tlc_delta_weights *w, uint8_t *weights,
                            tlc_weight_unit unit)
{
    const size_t bytes = tlc_unit_bytes(unit, 64); /* of the weights of a word */
    uint64_t changed[WORDS], minus[WORDS];
    const size_t batch = batch_of(s->changed.k, w->n);
    size_t index[BATCH], count, swept = 0; /* words */
    uint8_t negative[BATCH];

    memset(changed, 0, (w->n + 63) / 64 * sizeof *changed);
    memset(minus, 0, (w->n + 63) / 64 * sizeof *minus);
    for (uint64_t number = 0; (count = tlc_golomb_next(&s->changed, index, negative, batch)); number += count) {
        for (size_t i = 0; i < count; i++) {
            changed[index[i] / 64] |= (uint64_t)1 << index[i] % 64;
            minus[index[i] / 64] |= (uint64_t)negative[i] << index[i] % 64;
        }
        const size_t end = index[count - 1] / 64; /* this word may get more bits */
        move_masked(w->k, weights + swept * bytes, 64 * (end - swept), changed + swept, minus + swept, unit);
        swept = end;
        move_large(large, ALL, weights, index, negative, number, count, unit);
    }
    move_masked(w->k, weights + swept * bytes, w->n - 64 * swept, changed + swept, minus + swept, unit);
}

/* All that differ move by one. The few large ones among them move by the rest, before or after that. */
TLC_DELTA_INLINE void apply_to(lists *s, const tlc_delta_weights *w, tlc_delta_window window, uint8_t *weights,
                               tlc_weight_unit unit)
{
    large_ones large = {.s = s};

    if (window.first || window.end < w->n)
        visit(s, &large, window, weights, unit);
    else if (!is_swept(unit) || s->changed.k < w->n / SWEEP_FROM)
        visit(s, &large, ALL, weights, unit);
    else
        sweep(s, &large, w, weights, unit);
}

void tlc_delta_sparse_apply(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_window window,
                            uint8_t *weights)
{
    lists s;

    if (!open_lists(&s, w, src, len))
        return; /* which the check has refused */
    switch (tlc_delta_unit(w->dtype)) {
    case TLC_UNIT_F32: apply_to(&s, w, window, weights, TLC_UNIT_F32); break;
    case TLC_UNIT_F16: apply_to(&s, w, window, weights, TLC_UNIT_F16); break;
    case TLC_UNIT_F8: apply_to(&s, w, window, weights, TLC_UNIT_F8); break;
    case TLC_UNIT_F4: apply_to(&s, w, window, weights, TLC_UNIT_F4); break;
    case TLC_UNIT_U32: apply_to(&s, w, window, weights, TLC_UNIT_U32); break;
    case TLC_UNIT_U8: apply_to(&s, w, window, weights, TLC_UNIT_U8); break;
    case TLC_UNIT_U4: apply_to(&s, w, window, weights, TLC_UNIT_U4); break;
    case TLC_UNIT_HALF: apply_to(&s, w, window, weights, TLC_UNIT_HALF); break;
    }
}

int tlc_delta_sparse_changes(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_take_changes take,
                             void *arg)
{
    const tlc_weight_unit unit = tlc_delta_unit(w->dtype);
    lists s;
    large_ones large = {.s = &s};
    size_t index[BATCH], count;
    uint8_t negative[BATCH];
    uint32_t difference[BATCH];

    if (!open_lists(&s, w, src, len))
        return 0; /* which the check has refused */
    for (uint64_t number = 0; (count = tlc_golomb_next(&s.changed, index, negative, BATCH)); number += count) {
        for (size_t i = 0; i < count; i++)
            difference[i] = negative[i] ? UINT32_MAX : 1;
        for (; has_large(&large, number + count, unit); large.at++) {
            const size_t i = (size_t)(large.index[large.at] - number);
            difference[i] *= large.magnitude[large.at];
        }
        if (!take(arg, index, difference, count))
            return 0;
    }
    return 1;
}
