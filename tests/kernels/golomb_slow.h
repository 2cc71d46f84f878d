/* SPDX-License-Identifier: MIT
 *
 * Golomb codes bit by bit, as they are defined, and what the tests of src/positions/golomb.h share.
 */
#ifndef TLC_TEST_GOLOMB_SLOW_H
#define TLC_TEST_GOLOMB_SLOW_H

#include "../support/support.h"

#include "../../src/positions/golomb.h"

typedef struct set {
    uint64_t n, k, *mask, *negative;
} set;

static inline size_t words(uint64_t n)
{
    return (size_t)(n / 64 + (n % 64 != 0));
}

static inline set set_new(uint64_t n)
{
    set s = {n, 0, calloc(words(n) + 1, 8), calloc(words(n) + 1, 8)};

    require(s.mask && s.negative);
    return s;
}

static inline void set_free(set *s)
{
    free(s->mask);
    free(s->negative);
}

static inline void set_add(set *s, uint64_t index, int negative)
{
    s->k += !(s->mask[index / 64] >> index % 64 & 1);
    s->mask[index / 64] |= (uint64_t)1 << index % 64;
    if (negative)
        s->negative[index / 64] |= (uint64_t)1 << index % 64;
}

/* Signs outside the set are noise that must not matter. */
static inline set set_random(rng *r, uint64_t n, double p)
{
    set s = set_new(n);

    for (uint64_t i = 0; i < n; i++)
        if (rng_double(r) < p)
            set_add(&s, i, 0);
    for (size_t i = 0; i < words(n); i++)
        s.negative[i] = rng_next(r);
    return s;
}

static inline void push(uint8_t *dst, uint64_t *end, int bit)
{
    if (*end % 8 == 0)
        dst[*end / 8] = 0;
    dst[*end / 8] = (uint8_t)(dst[*end / 8] | bit << (7 - *end % 8));
    ++*end;
}

static inline size_t slow_write(const set *s, int signs, uint8_t *dst)
{
    unsigned b = tlc_golomb_parameter(s->k, s->n);
    uint64_t end = 0, next = 0, rest = s->k;

    do {
        dst[end++] = (uint8_t)(rest % 128 + (rest > 127 ? 128 : 0));
        rest /= 128;
    } while (rest);
    dst[end++] = (uint8_t)b;
    end *= 8;
    for (uint64_t i = 0; i < s->n; i++) {
        if (!(s->mask[i / 64] >> i % 64 & 1))
            continue;
        for (uint64_t q = (i - next) >> b; q; q--)
            push(dst, &end, 1);
        push(dst, &end, 0);
        for (unsigned bit = b; bit-- > 0;)
            push(dst, &end, (int)((i - next) >> bit & 1));
        if (signs)
            push(dst, &end, (int)(s->negative[i / 64] >> i % 64 & 1));
        next = i + 1;
    }
    while (end % 8)
        push(dst, &end, 0);
    return (size_t)(end / 8);
}

typedef struct slow_reader {
    const uint8_t *src;
    uint64_t at, end;
} slow_reader;

static inline int pull(slow_reader *r, uint64_t *bit)
{
    if (r->at == r->end)
        return 0;
    *bit = r->src[r->at / 8] >> (7 - r->at % 8) & 1;
    r->at++;
    return 1;
}

/* The bytes before the stream, or 0. */
static inline size_t slow_head(const uint8_t *src, size_t len, uint64_t n, uint64_t *k, unsigned *b)
{
    size_t size = 0;

    *k = 0;
    do {
        if (size == len || size == 10 || (size == 9 && src[9] > 1))
            return 0;
        *k |= (uint64_t)(src[size] & 127) << 7 * size;
    } while (src[size++] & 128);
    if ((size > 1 && !src[size - 1]) || size == len || src[size] > 48 || *k > n)
        return 0;
    *b = src[size];
    return size + 1;
}

/* The length of the payload, or 0 if it is not valid. index, sign: room for 8 * len positions. */
static inline size_t slow_read(const uint8_t *src, size_t len, uint64_t n, int signs, uint64_t *index, uint8_t *sign)
{
    uint64_t k, next = 0, bit;
    unsigned b = 0;
    slow_reader r = {src, 8 * slow_head(src, len, n, &k, &b), 8 * (uint64_t)len};

    if (!r.at)
        return 0;
    for (uint64_t i = 0; i < k; i++) {
        uint64_t quotient = 0, rest = 0, s = 0;
        for (;; quotient++) {
            if (!pull(&r, &bit))
                return 0;
            if (!bit)
                break;
        }
        for (unsigned j = 0; j < b; j++) {
            if (!pull(&r, &bit))
                return 0;
            rest = rest << 1 | bit;
        }
        if (signs && !pull(&r, &s))
            return 0;
        if (quotient > UINT64_MAX >> b || next >= n || (quotient << b) + rest >= n - next)
            return 0;
        index[i] = next + (quotient << b) + rest;
        sign[i] = (uint8_t)s;
        next = index[i] + 1;
    }
    while (r.at % 8)
        if (!pull(&r, &bit) || bit)
            return 0;
    return (size_t)(r.at / 8);
}

/* The same positions as masks, in pieces of all sizes, and 0 after the last position. */
static inline void judge_masks(const uint8_t *src, size_t len, uint64_t n, const uint64_t *index)
{
    uint64_t mask[TLC_GOLOMB_WORDS + 1], beyond = 0;
    tlc_golomb_masks masks;
    tlc_golomb_reader r;
    size_t count = 1;

    require(tlc_golomb_open(&r, tlc_kernels_for(TLC_ISA_SCALAR), src, len, n, 0));
    if (!tlc_golomb_masks_begin(&masks, &r))
        return;
    require(r.b <= 2 && r.k);
    for (uint64_t i = 0, first = 0; beyond < 3; first += 64 * count, count = count % TLC_GOLOMB_WORDS + 1) {
        uint64_t want[TLC_GOLOMB_WORDS] = {0};
        /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): slow_read has filled r.k of them */
        for (; i < r.k && index[i] - first < 64 * count; i++)
            want[(index[i] - first) / 64] |= (uint64_t)1 << index[i] % 64;
        memset(mask, 0x55, sizeof mask);
        tlc_golomb_masks_next(&masks, mask, count);
        require(same(mask, want, 8 * count) && mask[count] == UINT64_C(0x5555555555555555));
        beyond += i == r.k;
    }
}

/* What the slow decoder has read. */
typedef struct verdict {
    size_t size; /* of the payload, or 0 if it is not valid */
    const uint64_t *index;
    const uint8_t *sign;
} verdict;

/* Does the library find the same positions, `chunk` at a time? */
static inline void judge_positions(tlc_golomb_reader r, const verdict *want, int with_signs, size_t chunk)
{
    size_t got_index[257], count = 0, got;
    uint8_t got_sign[257];

    got_index[chunk] = 777, got_sign[chunk] = 77;
    do {
        got = tlc_golomb_next(&r, got_index, with_signs ? got_sign : NULL, chunk);
        require(got == (r.k - count < chunk ? r.k - count : chunk));
        for (size_t i = 0; i < got; i++)
            /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): tlc_golomb_next has set it */
            require(got_index[i] == (size_t)want->index[count + i] &&
                    (!r.signs || got_sign[i] == want->sign[count + i]));
        count += got;
    } while (got);
    require(count == r.k && got_index[chunk] == 777 && got_sign[chunk] == 77);
}

/* Does the library read these bytes as the slow decoder does? They end at a guard page. */
static inline void judge_isa(const tlc_kernels *kernels, const uint8_t *src, size_t len, uint64_t n, int signs,
                             const verdict *want, size_t chunk)
{
    tlc_golomb_reader r, before;
    unsigned b;
    uint64_t k;
    size_t size;
    int opened = slow_head(src, len, n, &k, &b) > 0;

    require(tlc_golomb_open(&r, kernels, src, len, n, signs) == opened);
    if (!opened)
        return;
    before = r;
    require(r.k == k && tlc_golomb_check(&r, &size) == (want->size > 0) && same(&r, &before, sizeof r));
    if (!want->size)
        return;
    require(size == want->size);
    judge_positions(r, want, signs || len % 2, chunk);
    if (signs) {
        tlc_golomb_masks masks;
        require(!tlc_golomb_masks_begin(&masks, &r)); /* they have no signs */
    }
}

/* judge_isa for all ISAs. Returns the length of the payload, or 0 if it is not valid. */
static inline size_t judge(arena *a, const uint8_t *bytes_in, size_t len, uint64_t n, int signs, size_t chunk)
{
    const uint8_t *src = arena_copy(a, bytes_in, len, 1);
    uint64_t *index = malloc(64 * len + 8);
    uint8_t *sign = bytes(8 * len + 1);
    verdict want = {0, index, sign};

    at.n = (size_t)n, at.i = len;
    require(chunk <= 256 && index);
    want.size = slow_read(src, len, n, signs, index, sign);
    FOR_EACH_ISA(isa)
        judge_isa(tlc_kernels_for(isa), src, len, n, signs, &want, chunk);
    if (want.size && !signs)
        judge_masks(arena_copy(a, bytes_in, want.size, 1), want.size, n, index);
    free(index);
    free(sign);
    return want.size;
}

#define DENSITIES {0.0005, 0.002, 0.01, 0.05, 0.1, 0.2, 0.3, 0.38, 0.4, 0.6, 0.9, 0.99, 1}
#endif
