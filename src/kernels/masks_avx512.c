/* SPDX-License-Identifier: MIT
 *
 * 64 values become a word of bits; those of the last word that do not exist are masked out.
 */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { WORD = 64, LANES = 16 };
#define ALL (~(__mmask64)0)

INLINE __mmask64 lanes(size_t left)
{
    return left < WORD ? ((__mmask64)1 << left) - 1 : ALL;
}

INLINE uint64_t symbols64(const int8_t *q, __mmask64 mask, uint64_t *nonzero, uint64_t *negative)
{
    __m512i symbols = _mm512_maskz_loadu_epi8(mask, q);

    *nonzero = _mm512_test_epi8_mask(symbols, symbols);
    if (negative)
        *negative = _mm512_movepi8_mask(symbols);
    return (uint64_t)__builtin_popcountll(*nonzero);
}

/* Inlined once with and once without negative. */
INLINE uint64_t symbols(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD)
        count += symbols64(q + i, ALL, nonzero + i / WORD, negative ? negative + i / WORD : NULL);
    if (i < n)
        count += symbols64(q + i, lanes(n - i), nonzero + i / WORD, negative ? negative + i / WORD : NULL);
    return count;
}

AVX512 uint64_t tlc_symbol_masks_avx512(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    return negative ? symbols(q, n, nonzero, negative) : symbols(q, n, nonzero, NULL);
}

INLINE uint64_t join(__mmask16 a, __mmask16 b, __mmask16 c, __mmask16 d)
{
    return _mm512_kunpackd(_mm512_kunpackw(d, c), _mm512_kunpackw(b, a));
}

typedef struct threshold {
    __m512i flip, keep, least;
} threshold;

INLINE __mmask16 reached16(const float *x, __mmask64 mask, threshold t)
{
    __m512i bits = _mm512_maskz_loadu_epi32((__mmask16)mask, x);

    bits = _mm512_and_si512(_mm512_xor_si512(bits, t.flip), t.keep);
    return _mm512_mask_cmpge_epi32_mask((__mmask16)mask, bits, t.least);
}

INLINE uint64_t reached64(const float *x, __mmask64 mask, threshold t)
{
    return join(reached16(x, mask, t), reached16(x + LANES, mask >> 16, t), reached16(x + 2 * LANES, mask >> 32, t),
                reached16(x + 3 * LANES, mask >> 48, t));
}

AVX512 uint64_t tlc_threshold_mask_avx512(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,
                                          uint64_t *mask)
{
    const threshold t = {_mm512_set1_epi32((int)flip), _mm512_set1_epi32((int)keep), _mm512_set1_epi32(least)};
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        mask[i / WORD] = reached64(x + i, ALL, t);
        count += (uint64_t)__builtin_popcountll(mask[i / WORD]);
    }
    if (i == n)
        return count;
    mask[i / WORD] = reached64(x + i, lanes(n - i), t);
    return count + (uint64_t)__builtin_popcountll(mask[i / WORD]);
}

/* A lane that is masked out holds 0, which is never drawn. */
INLINE __mmask16 drawn16(const float *x, const uint32_t *words, __mmask64 mask, __m512i limit)
{
    __m512i word = _mm512_maskz_loadu_epi32((__mmask16)mask, words);
    __mmask16 other = _mm512_cmp_ps_mask(_mm512_maskz_loadu_ps((__mmask16)mask, x), _mm512_setzero_ps(), _CMP_NEQ_UQ);

    return _mm512_mask_cmplt_epu32_mask(other, _mm512_srli_epi32(word, 8), limit);
}

INLINE uint64_t drawn64(const float *x, const uint32_t *words, __mmask64 mask, __m512i limit)
{
    return join(drawn16(x, words, mask, limit), drawn16(x + LANES, words + LANES, mask >> 16, limit),
                drawn16(x + 2 * LANES, words + 2 * LANES, mask >> 32, limit),
                drawn16(x + 3 * LANES, words + 3 * LANES, mask >> 48, limit));
}

AVX512 uint64_t tlc_random_mask_avx512(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask)
{
    const __m512i limits = _mm512_set1_epi32((int)limit);
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        mask[i / WORD] = drawn64(x + i, words + i, ALL, limits);
        count += (uint64_t)__builtin_popcountll(mask[i / WORD]);
    }
    if (i == n)
        return count;
    mask[i / WORD] = drawn64(x + i, words + i, lanes(n - i), limits);
    return count + (uint64_t)__builtin_popcountll(mask[i / WORD]);
}

uint64_t tlc_ones_avx512(const uint8_t *bits, size_t len)
{
    return tlc_ones_avx2(bits, len);
}

/* The values of 16 bits: reads 16 where there are so many, else those that are wanted. */
INLINE __m512 expand16(__mmask16 bits, const uint8_t *values, size_t have)
{
    __mmask16 load = (__mmask16)(have < LANES ? (1u << __builtin_popcount(bits)) - 1 : 0xffff);
    return _mm512_maskz_expand_ps(bits, _mm512_maskz_loadu_ps(load, values));
}

INLINE void add16(__mmask16 bits, __m512 value, __m512 weight, float *sum)
{
    __m512 product = _mm512_mul_ps(value, weight);

    TLC_OPAQUE(product); /* rounded before it is added */
    __m512 x = _mm512_add_ps(_mm512_maskz_loadu_ps(bits, sum), product);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    x = _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(_mm512_set1_epi32(TLC_F32_NAN)));
    _mm512_mask_storeu_ps(sum, bits, x);
}

/* Inlined once with add, where weight counts, and once without. */
INLINE size_t expand(const uint64_t *mask, size_t n, const uint8_t *values, size_t have, int add, float weight, float *out)
{
    const __m512 w = _mm512_set1_ps(weight);
    size_t at = 0;

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 exist = (__mmask16)lanes(n - i), bits = (__mmask16)(mask[i / WORD] >> i % WORD) & exist;
        __m512 value = expand16(bits, values + 4 * at, have - at);

        if (add)
            add16(bits, value, w, out + i);
        else
            _mm512_mask_storeu_ps(out + i, exist, value);
        at += (size_t)__builtin_popcount(bits);
    }
    return at;
}

AVX512 size_t tlc_expand_avx512(const uint64_t *mask, size_t n, const void *values, size_t have, float *out)
{
    return expand(mask, n, values, have, 0, 0, out);
}

AVX512 size_t tlc_expand_add_avx512(const uint64_t *mask, size_t n, const void *values, size_t have, float weight,
                                    float *sum)
{
    return expand(mask, n, values, have, 1, weight, sum);
}
#endif
