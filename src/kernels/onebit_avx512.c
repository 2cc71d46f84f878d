/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { LANES = 16, ROUND = 4 * LANES };
#define ALL ((__mmask16)0xffff)

INLINE __mmask16 lanes(size_t left)
{
    return (__mmask16)(left < LANES ? (1u << left) - 1u : ALL);
}

/* Sixteen values from i on; 0 where masked out. */
INLINE __m512 wanted16(const float *g, const float *r, size_t i, __mmask16 mask)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, g ? g + i : r + i);
    return g && r ? _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, r + i)) : x;
}

/* x >= 0, of those that the mask has. */
INLINE __mmask16 upper_side(__m512 x, __mmask16 mask)
{
    return _mm512_mask_cmp_ps_mask(mask, x, _mm512_setzero_ps(), _CMP_GE_OQ);
}

/* The 16 lanes of each side, eight in a vector. */
typedef struct sides {
    __m512d upper[2], lower[2];
    __m512i max;
    uint32_t count;
} sides;

/* A zero is added where a value is of the other side: no sum is -0, so none changes. */
INLINE void add8(__m512d *upper, __m512d *lower, __m256 x)
{
    __m512d value = _mm512_cvtps_pd(x), zero = _mm512_setzero_pd();

    *upper = _mm512_add_pd(*upper, _mm512_max_pd(value, zero));
    *lower = _mm512_add_pd(*lower, _mm512_min_pd(value, zero));
}

INLINE void add16(sides *s, __m512 x, __mmask16 mask)
{
    __m256d high = _mm512_extractf64x4_pd(_mm512_castps_pd(x), 1);

    add8(&s->upper[0], &s->lower[0], _mm512_castps512_ps256(x));
    add8(&s->upper[1], &s->lower[1], _mm256_castpd_ps(high));
    s->max = _mm512_max_epu32(s->max, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)TLC_F32_ABS)));
    s->count += (uint32_t)__builtin_popcount(upper_side(x, mask));
}

INLINE double fold(const __m512d lane[2])
{
    __m512d eight = _mm512_add_pd(lane[0], lane[1]);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* Inlined once for each of the three forms of x. */
INLINE uint32_t side_sums(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    sides s = {.max = _mm512_setzero_si512()};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        add16(&s, wanted16(g, r, i, ALL), ALL);
    if (i < n)
        add16(&s, wanted16(g, r, i, lanes(n - i)), lanes(n - i));
    sums[0] = fold(s.upper);
    sums[1] = fold(s.lower);
    *count = s.count;
    return _mm512_reduce_max_epu32(s.max);
}

AVX512 uint32_t tlc_side_sums_avx512(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    if (!r)
        return side_sums(g, NULL, n, sums, count);
    if (!g)
        return side_sums(NULL, r, n, sums, count);
    return side_sums(g, r, n, sums, count);
}

INLINE __mmask16 encode16(const float *g, float *r, size_t i, __mmask16 mask, __m512 upper, __m512 lower)
{
    __m512 x = wanted16(g, r, i, mask);
    __mmask16 side = upper_side(x, mask);

    if (r)
        _mm512_mask_storeu_ps(r + i, mask, _mm512_sub_ps(x, _mm512_mask_blend_ps(side, lower, upper)));
    return side;
}

INLINE void encode(const float *g, float *r, size_t n, const float *mean, uint8_t *bits)
{
    const __m512 upper = _mm512_set1_ps(r ? mean[0] : 0), lower = _mm512_set1_ps(r ? mean[1] : 0);
    size_t i = 0;

    for (; n - i >= ROUND; i += ROUND) {
        __mmask16 a = encode16(g, r, i, ALL, upper, lower), b = encode16(g, r, i + LANES, ALL, upper, lower);
        __mmask16 c = encode16(g, r, i + 2 * LANES, ALL, upper, lower);
        __mmask16 d = encode16(g, r, i + 3 * LANES, ALL, upper, lower);
        uint64_t four = _mm512_kunpackd(_mm512_kunpackw(d, c), _mm512_kunpackw(b, a));
        memcpy(bits + i / 8, &four, sizeof four);
    }
    for (; i < n; i += LANES) {
        __mmask16 side = encode16(g, r, i, lanes(n - i), upper, lower);

        bits[i / 8] = (uint8_t)side;
        if (n - i > 8)
            bits[i / 8 + 1] = (uint8_t)(side >> 8);
    }
}

AVX512 void tlc_onebit_encode_avx512(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits)
{
    if (!r)
        encode(g, NULL, n, mean, bits);
    else if (!g)
        encode(NULL, r, n, mean, bits);
    else
        encode(g, r, n, mean, bits);
}

typedef struct means {
    __m512 upper, lower;
} means;

INLINE means means_of(const float mean[2])
{
    return (means){_mm512_set1_ps(mean[0]), _mm512_set1_ps(mean[1])};
}

/* The bits of 64 values, and of up to 16. */
INLINE uint64_t bits64(const uint8_t *bits)
{
    uint64_t word;

    memcpy(&word, bits, sizeof word);
    return word;
}

INLINE uint64_t bits16(const uint8_t *bits, size_t left)
{
    return left > 8 ? bits[0] | (uint64_t)bits[1] << 8 : bits[0];
}

/* Asks for the line 2 KiB on, which is to be written: a store that misses waits for its line. No access, so it may
 * point past the end. */
INLINE void prefetch(const void *to)
{
    _mm_prefetch((const char *)((uintptr_t)to + 2048), _MM_HINT_T0);
}

INLINE void decode16(uint64_t bits, __mmask16 mask, means of, float *out)
{
    prefetch(out);
    _mm512_mask_storeu_ps(out, mask, _mm512_mask_blend_ps((__mmask16)bits, of.lower, of.upper));
}

AVX512 void tlc_onebit_decode_avx512(const uint8_t *bits, size_t n, const float mean[2], float *out)
{
    means of = means_of(mean);
    size_t i = 0;

    for (; n - i >= ROUND; i += ROUND) {
        uint64_t word = bits64(bits + i / 8);

        decode16(word, ALL, of, out + i);
        decode16(word >> 16, ALL, of, out + i + LANES);
        decode16(word >> 32, ALL, of, out + i + 2 * LANES);
        decode16(word >> 48, ALL, of, out + i + 3 * LANES);
    }
    for (; i < n; i += LANES)
        decode16(bits16(bits + i / 8, n - i), lanes(n - i), of, out + i);
}

INLINE void sum16(uint64_t bits, __mmask16 mask, means of, float *sum)
{
    __m512 mean = _mm512_mask_blend_ps((__mmask16)bits, of.lower, of.upper);
    __m512 x = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, sum), mean);
    __m512i nan = _mm512_set1_epi32((int)TLC_F32_NAN);

    x = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_castsi512_ps(nan));
    _mm512_mask_storeu_ps(sum, mask, x);
}

AVX512 void tlc_onebit_add_avx512(const uint8_t *bits, size_t n, const float mean[2], float *sum)
{
    means of = means_of(mean);
    size_t i = 0;

    for (; n - i >= ROUND; i += ROUND) {
        uint64_t word = bits64(bits + i / 8);

        sum16(word, ALL, of, sum + i);
        sum16(word >> 16, ALL, of, sum + i + LANES);
        sum16(word >> 32, ALL, of, sum + i + 2 * LANES);
        sum16(word >> 48, ALL, of, sum + i + 3 * LANES);
    }
    for (; i < n; i += LANES)
        sum16(bits16(bits + i / 8, n - i), lanes(n - i), of, sum + i);
}
#endif
