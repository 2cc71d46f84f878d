/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

/* The bits of |x| as integers: they order like the magnitudes, and NaN comes out above everything. */
INLINE __m256i max_magnitude(__m256i max, __m256 x)
{
    __m256i bits = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32((int)TLC_F32_ABS));
    return _mm256_max_epu32(max, bits);
}

INLINE uint32_t max_lane(__m256i max)
{
    __m128i m = _mm_max_epu32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));

    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(1, 0, 3, 2)));
    m = _mm_max_epu32(m, _mm_shuffle_epi32(m, _MM_SHUFFLE(2, 3, 0, 1)));
    return (uint32_t)_mm_cvtsi128_si32(m);
}

INLINE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

AVX2 static uint32_t absmax_one(const float *x, size_t n)
{
    __m256i max0 = _mm256_setzero_si256(), max1 = max0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        max0 = max_magnitude(max0, _mm256_loadu_ps(x + i));
        max1 = max_magnitude(max1, _mm256_loadu_ps(x + i + 8));
        max0 = max_magnitude(max0, _mm256_loadu_ps(x + i + 16));
        max1 = max_magnitude(max1, _mm256_loadu_ps(x + i + 24));
    }
    for (; i + 8 <= n; i += 8)
        max0 = max_magnitude(max0, _mm256_loadu_ps(x + i));
    uint32_t max = max_lane(_mm256_max_epu32(max0, max1));
    return i < n ? larger(max, tlc_absmax_scalar(x + i, NULL, n - i)) : max;
}

INLINE __m256 sum8(const float *g, const float *r)
{
    return _mm256_add_ps(_mm256_loadu_ps(g), _mm256_loadu_ps(r));
}

AVX2 static uint32_t absmax_sum(const float *g, const float *r, size_t n)
{
    __m256i max0 = _mm256_setzero_si256(), max1 = max0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        max0 = max_magnitude(max0, sum8(g + i, r + i));
        max1 = max_magnitude(max1, sum8(g + i + 8, r + i + 8));
        max0 = max_magnitude(max0, sum8(g + i + 16, r + i + 16));
        max1 = max_magnitude(max1, sum8(g + i + 24, r + i + 24));
    }
    for (; i + 8 <= n; i += 8)
        max0 = max_magnitude(max0, sum8(g + i, r + i));
    uint32_t max = max_lane(_mm256_max_epu32(max0, max1));
    return i < n ? larger(max, tlc_absmax_scalar(g + i, r + i, n - i)) : max;
}

AVX2 uint32_t tlc_absmax_avx2(const float *g, const float *r, size_t n)
{
    return g && r ? absmax_sum(g, r, n) : absmax_one(g ? g : r, n);
}

/* r += g for eight values; returns the new ones. */
INLINE __m256 add8(float *r, const float *g)
{
    __m256 x = _mm256_add_ps(_mm256_loadu_ps(r), _mm256_loadu_ps(g));

    _mm256_storeu_ps(r, x);
    return x;
}

AVX2 uint32_t tlc_accumulate_avx2(float *r, const float *g, size_t n)
{
    __m256i max0 = _mm256_setzero_si256(), max1 = max0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        max0 = max_magnitude(max0, add8(r + i, g + i));
        max1 = max_magnitude(max1, add8(r + i + 8, g + i + 8));
        max0 = max_magnitude(max0, add8(r + i + 16, g + i + 16));
        max1 = max_magnitude(max1, add8(r + i + 24, g + i + 24));
    }
    for (; i + 8 <= n; i += 8)
        max0 = max_magnitude(max0, add8(r + i, g + i));
    uint32_t max = max_lane(_mm256_max_epu32(max0, max1));
    return i < n ? larger(max, tlc_accumulate_scalar(r + i, g + i, n - i)) : max;
}
#endif
