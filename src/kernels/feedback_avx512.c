/* SPDX-License-Identifier: MIT
 *
 * 64 values at a time with four maxima, so that no iteration waits for the one before.
 */
#include "avx512.h"

#if defined(__x86_64__)

TLC_AVX512_INLINE uint32_t fold(const __m512i max[4])
{
    return _mm512_reduce_max_epu32(
        _mm512_max_epu32(_mm512_max_epu32(max[0], max[1]), _mm512_max_epu32(max[2], max[3])));
}

TLC_AVX512_INLINE uint32_t absmax(tlc_addends has, const float *g, const float *r, size_t n)
{
    __m512i max[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        max[0] = tlc_avx512_larger(max[0], tlc_avx512_wanted(has, g, r, i, ALL_LANES));
        max[1] = tlc_avx512_larger(max[1], tlc_avx512_wanted(has, g, r, i + LANES, ALL_LANES));
        max[2] = tlc_avx512_larger(max[2], tlc_avx512_wanted(has, g, r, i + 2 * LANES, ALL_LANES));
        max[3] = tlc_avx512_larger(max[3], tlc_avx512_wanted(has, g, r, i + 3 * LANES, ALL_LANES));
    }
    for (; i < n; i += LANES)
        max[0] = tlc_avx512_larger(max[0], tlc_avx512_wanted(has, g, r, i, tlc_avx512_lanes(n - i)));
    return fold(max);
}

TLC_AVX512 uint32_t tlc_absmax_avx512(const float *g, const float *r, size_t n)
{
    if (!r)
        return absmax(TLC_HAS_G, g, NULL, n);
    if (!g)
        return absmax(TLC_HAS_R, NULL, r, n);
    return absmax(TLC_HAS_BOTH, g, r, n);
}

TLC_AVX512_INLINE __m512 add_to(float *r, const float *g, size_t i, __mmask16 mask)
{
    __m512 x = tlc_avx512_wanted(TLC_HAS_BOTH, r, g, i, mask);

    _mm512_mask_storeu_ps(r + i, mask, x);
    return x;
}

TLC_AVX512 uint32_t tlc_accumulate_avx512(float *r, const float *g, size_t n)
{
    __m512i max[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        max[0] = tlc_avx512_larger(max[0], add_to(r, g, i, ALL_LANES));
        max[1] = tlc_avx512_larger(max[1], add_to(r, g, i + LANES, ALL_LANES));
        max[2] = tlc_avx512_larger(max[2], add_to(r, g, i + 2 * LANES, ALL_LANES));
        max[3] = tlc_avx512_larger(max[3], add_to(r, g, i + 3 * LANES, ALL_LANES));
    }
    for (; i < n; i += LANES)
        max[0] = tlc_avx512_larger(max[0], add_to(r, g, i, tlc_avx512_lanes(n - i)));
    return fold(max);
}
#endif
