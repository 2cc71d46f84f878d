/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

TLC_AVX2_INLINE uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

TLC_AVX2 static uint32_t absmax_one(const float *x, size_t n)
{
    __m256i max0 = _mm256_setzero_si256(), max1 = max0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        max0 = tlc_avx2_larger(max0, _mm256_loadu_ps(x + i));
        max1 = tlc_avx2_larger(max1, _mm256_loadu_ps(x + i + 8));
        max0 = tlc_avx2_larger(max0, _mm256_loadu_ps(x + i + 16));
        max1 = tlc_avx2_larger(max1, _mm256_loadu_ps(x + i + 24));
    }
    for (; i + 8 <= n; i += 8)
        max0 = tlc_avx2_larger(max0, _mm256_loadu_ps(x + i));
    uint32_t max = tlc_avx2_largest(_mm256_max_epu32(max0, max1));
    return i < n ? larger(max, tlc_absmax_scalar(x + i, NULL, n - i)) : max;
}

TLC_AVX2_INLINE __m256 sum8(const float *g, const float *r)
{
    return _mm256_add_ps(_mm256_loadu_ps(g), _mm256_loadu_ps(r));
}

TLC_AVX2 static uint32_t absmax_sum(const float *g, const float *r, size_t n)
{
    __m256i max0 = _mm256_setzero_si256(), max1 = max0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        max0 = tlc_avx2_larger(max0, sum8(g + i, r + i));
        max1 = tlc_avx2_larger(max1, sum8(g + i + 8, r + i + 8));
        max0 = tlc_avx2_larger(max0, sum8(g + i + 16, r + i + 16));
        max1 = tlc_avx2_larger(max1, sum8(g + i + 24, r + i + 24));
    }
    for (; i + 8 <= n; i += 8)
        max0 = tlc_avx2_larger(max0, sum8(g + i, r + i));
    uint32_t max = tlc_avx2_largest(_mm256_max_epu32(max0, max1));
    return i < n ? larger(max, tlc_absmax_scalar(g + i, r + i, n - i)) : max;
}

TLC_AVX2 uint32_t tlc_absmax_avx2(const float *g, const float *r, size_t n)
{
    return g && r ? absmax_sum(g, r, n) : absmax_one(g ? g : r, n);
}

/* r += g for eight values. Returns the new r. */
TLC_AVX2_INLINE __m256 add8(float *r, const float *g)
{
    __m256 x = _mm256_add_ps(_mm256_loadu_ps(r), _mm256_loadu_ps(g));

    _mm256_storeu_ps(r, x);
    return x;
}

TLC_AVX2 uint32_t tlc_accumulate_avx2(float *r, const float *g, size_t n)
{
    __m256i max0 = _mm256_setzero_si256(), max1 = max0;
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        max0 = tlc_avx2_larger(max0, add8(r + i, g + i));
        max1 = tlc_avx2_larger(max1, add8(r + i + 8, g + i + 8));
        max0 = tlc_avx2_larger(max0, add8(r + i + 16, g + i + 16));
        max1 = tlc_avx2_larger(max1, add8(r + i + 24, g + i + 24));
    }
    for (; i + 8 <= n; i += 8)
        max0 = tlc_avx2_larger(max0, add8(r + i, g + i));
    uint32_t max = tlc_avx2_largest(_mm256_max_epu32(max0, max1));
    return i < n ? larger(max, tlc_accumulate_scalar(r + i, g + i, n - i)) : max;
}
#endif
