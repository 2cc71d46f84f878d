/* SPDX-License-Identifier: MIT
 *
 * 64 values become a word of bits. Lanes past the last value are masked out.
 */
#include "avx512.h"

#if defined(__x86_64__)

enum { WORD = 64 };
TLC_AVX512_INLINE uint64_t symbols64(const int8_t *q, __mmask64 mask, uint64_t *nonzero, uint64_t *negative)
{
    __m512i symbols = _mm512_maskz_loadu_epi8(mask, q);

    *nonzero = _mm512_test_epi8_mask(symbols, symbols);
    if (negative)
        *negative = _mm512_movepi8_mask(symbols);
    return (uint64_t)__builtin_popcountll(*nonzero);
}

/* Inlined once with `negative` and once without. */
TLC_AVX512_INLINE uint64_t symbols(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD)
        count += symbols64(q + i, ALL_BYTES, nonzero + i / WORD, negative ? negative + i / WORD : NULL);
    if (i < n)
        count += symbols64(q + i, tlc_avx512_bytes(n - i), nonzero + i / WORD, negative ? negative + i / WORD : NULL);
    return count;
}

TLC_AVX512 uint64_t tlc_symbol_masks_avx512(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    return negative ? symbols(q, n, nonzero, negative) : symbols(q, n, nonzero, NULL);
}

typedef struct threshold {
    __m512i flip, keep, least;
} threshold;

TLC_AVX512_INLINE __mmask16 reached16(const float *x, __mmask64 mask, threshold t)
{
    __m512i bits = _mm512_maskz_loadu_epi32((__mmask16)mask, x);

    bits = _mm512_and_si512(_mm512_xor_si512(bits, t.flip), t.keep);
    return _mm512_mask_cmpge_epi32_mask((__mmask16)mask, bits, t.least);
}

TLC_AVX512_INLINE uint64_t reached64(const float *x, __mmask64 mask, threshold t)
{
    return tlc_avx512_join(reached16(x, mask, t), reached16(x + LANES, mask >> 16, t),
                           reached16(x + 2 * LANES, mask >> 32, t), reached16(x + 3 * LANES, mask >> 48, t));
}

TLC_AVX512 uint64_t tlc_threshold_mask_avx512(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,
                                              uint64_t *mask)
{
    const threshold t = {_mm512_set1_epi32((int)flip), _mm512_set1_epi32((int)keep), _mm512_set1_epi32(least)};
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        mask[i / WORD] = reached64(x + i, ALL_BYTES, t);
        count += (uint64_t)__builtin_popcountll(mask[i / WORD]);
    }
    if (i == n)
        return count;
    mask[i / WORD] = reached64(x + i, tlc_avx512_bytes(n - i), t);
    return count + (uint64_t)__builtin_popcountll(mask[i / WORD]);
}

/* A lane that is masked out holds 0, and 0 is never drawn. */
TLC_AVX512_INLINE __mmask16 drawn16(const float *x, const uint32_t *words, __mmask64 mask, __m512i limit)
{
    __m512i word = _mm512_maskz_loadu_epi32((__mmask16)mask, words);
    __mmask16 other = _mm512_cmp_ps_mask(_mm512_maskz_loadu_ps((__mmask16)mask, x), _mm512_setzero_ps(), _CMP_NEQ_UQ);

    return _mm512_mask_cmplt_epu32_mask(other, _mm512_srli_epi32(word, 8), limit);
}

TLC_AVX512_INLINE uint64_t drawn64(const float *x, const uint32_t *words, __mmask64 mask, __m512i limit)
{
    return tlc_avx512_join(drawn16(x, words, mask, limit), drawn16(x + LANES, words + LANES, mask >> 16, limit),
                           drawn16(x + 2 * LANES, words + 2 * LANES, mask >> 32, limit),
                           drawn16(x + 3 * LANES, words + 3 * LANES, mask >> 48, limit));
}

TLC_AVX512 uint64_t tlc_random_mask_avx512(const float *x, const uint32_t *words, size_t n, uint32_t limit,
                                           uint64_t *mask)
{
    const __m512i limits = _mm512_set1_epi32((int)limit);
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        mask[i / WORD] = drawn64(x + i, words + i, ALL_BYTES, limits);
        count += (uint64_t)__builtin_popcountll(mask[i / WORD]);
    }
    if (i == n)
        return count;
    mask[i / WORD] = drawn64(x + i, words + i, tlc_avx512_bytes(n - i), limits);
    return count + (uint64_t)__builtin_popcountll(mask[i / WORD]);
}

/* The values of 16 bits. Reads 16 values if there are that many, else only those that are wanted. */
TLC_AVX512_INLINE __m512 expand16(__mmask16 bits, const uint8_t *values, size_t have)
{
    __mmask16 load = (__mmask16)(have < LANES ? (1u << __builtin_popcount(bits)) - 1 : ALL_LANES);
    return _mm512_maskz_expand_ps(bits, _mm512_maskz_loadu_ps(load, values));
}

TLC_AVX512_INLINE void add16(__mmask16 bits, __m512 value, __m512 weight, float *sum)
{
    _mm512_mask_storeu_ps(sum, bits, tlc_avx512_weighted(_mm512_maskz_loadu_ps(bits, sum), value, weight));
}

/* Inlined once with add, which uses weight, and once without. */
TLC_AVX512_INLINE size_t expand(const uint64_t *mask, size_t n, const uint8_t *values, size_t have, int add,
                                float weight, float *out)
{
    const __m512 w = _mm512_set1_ps(weight);
    size_t at = 0;

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 exist = tlc_avx512_lanes(n - i), bits = (__mmask16)(mask[i / WORD] >> i % WORD) & exist;
        __m512 value = expand16(bits, values + 4 * at, have - at);

        if (add)
            add16(bits, value, w, out + i);
        else
            _mm512_mask_storeu_ps(out + i, exist, value);
        at += (size_t)__builtin_popcount(bits);
    }
    return at;
}

TLC_AVX512 size_t tlc_expand_avx512(const uint64_t *mask, size_t n, const void *values, size_t have, float *out)
{
    return expand(mask, n, values, have, 0, 0, out);
}

TLC_AVX512 size_t tlc_expand_add_avx512(const uint64_t *mask, size_t n, const void *values, size_t have, float weight,
                                        float *sum)
{
    return expand(mask, n, values, have, 1, weight, sum);
}

/* No branch on the bits: with few of them it would be mispredicted at every other word. */
TLC_AVX512 size_t tlc_compact_avx512(const float *x, const uint64_t *mask, size_t n, float *out)
{
    float *to = out;

    for (size_t i = 0; i < n; i += LANES) {
        __mmask16 bits = (__mmask16)(mask[i / BYTES] >> i % BYTES) & tlc_avx512_lanes(n - i);
        size_t count = (size_t)__builtin_popcount(bits);

        /* Compressing stores are slow on Zen 4. */
        _mm512_mask_storeu_ps(to, tlc_avx512_lanes(count),
                              _mm512_maskz_compress_ps(bits, _mm512_maskz_loadu_ps(bits, x + i)));
        to += count;
    }
    return (size_t)(to - out);
}

/* No branch on the bits, as in compact. Each store writes a whole vector; the next one overwrites the excess. */
TLC_AVX512 size_t tlc_threshold_values_avx512(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,
                                              float *out)
{
    const threshold t = {_mm512_set1_epi32((int)flip), _mm512_set1_epi32((int)keep), _mm512_set1_epi32(least)};
    size_t count = 0, i = 0;

    for (; n - i >= LANES; i += LANES) {
        __mmask16 bits = reached16(x + i, ALL_LANES, t);
        _mm512_storeu_ps(out + count, _mm512_maskz_compress_ps(bits, _mm512_loadu_ps(x + i)));
        count += (size_t)__builtin_popcount(bits);
    }
    return count + tlc_threshold_values_scalar(x + i, n - i, flip, keep, least, out + count);
}
#endif
