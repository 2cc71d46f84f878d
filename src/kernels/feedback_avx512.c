/* SPDX-License-Identifier: MIT
 *
 * Sums and their largest magnitude, 64 values a round: four maxima, so that no round waits for the one before.
 */
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

/* a[i] + b[i], or a[i] without b; 0 where masked out. */
INLINE __m512 sum(const float *a, const float *b, size_t i, __mmask16 mask)
{
    __m512 x = _mm512_maskz_loadu_ps(mask, a + i);
    return b ? _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, b + i)) : x;
}

INLINE __m512i max_magnitude(__m512i max, __m512 x)
{
    return _mm512_max_epu32(max, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32((int)TLC_F32_ABS)));
}

INLINE uint32_t fold(const __m512i max[4])
{
    return _mm512_reduce_max_epu32(_mm512_max_epu32(_mm512_max_epu32(max[0], max[1]), _mm512_max_epu32(max[2], max[3])));
}

INLINE uint32_t absmax(const float *a, const float *b, size_t n)
{
    __m512i max[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t i = 0;

    for (; n - i >= ROUND; i += ROUND) {
        max[0] = max_magnitude(max[0], sum(a, b, i, ALL));
        max[1] = max_magnitude(max[1], sum(a, b, i + LANES, ALL));
        max[2] = max_magnitude(max[2], sum(a, b, i + 2 * LANES, ALL));
        max[3] = max_magnitude(max[3], sum(a, b, i + 3 * LANES, ALL));
    }
    for (; i < n; i += LANES)
        max[0] = max_magnitude(max[0], sum(a, b, i, lanes(n - i)));
    return fold(max);
}

AVX512 uint32_t tlc_absmax_avx512(const float *g, const float *r, size_t n)
{
    if (!r)
        return absmax(g, NULL, n);
    if (!g)
        return absmax(r, NULL, n);
    return absmax(g, r, n);
}

INLINE __m512 add_to(float *r, const float *g, size_t i, __mmask16 mask)
{
    __m512 x = sum(r, g, i, mask);
    _mm512_mask_storeu_ps(r + i, mask, x);
    return x;
}

AVX512 uint32_t tlc_accumulate_avx512(float *r, const float *g, size_t n)
{
    __m512i max[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t i = 0;

    for (; n - i >= ROUND; i += ROUND) {
        max[0] = max_magnitude(max[0], add_to(r, g, i, ALL));
        max[1] = max_magnitude(max[1], add_to(r, g, i + LANES, ALL));
        max[2] = max_magnitude(max[2], add_to(r, g, i + 2 * LANES, ALL));
        max[3] = max_magnitude(max[3], add_to(r, g, i + 3 * LANES, ALL));
    }
    for (; i < n; i += LANES)
        max[0] = max_magnitude(max[0], add_to(r, g, i, lanes(n - i)));
    return fold(max);
}
#endif
