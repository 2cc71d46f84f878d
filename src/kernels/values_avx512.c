/* SPDX-License-Identifier: MIT */
#include "avx512.h"

#if defined(__x86_64__)

TLC_AVX512_INLINE void add16(const float *v, __mmask16 mask, __m512 weight, int skip, float *sum)
{
    __m512 value = _mm512_maskz_loadu_ps(mask, v), old = _mm512_maskz_loadu_ps(mask, sum);

    if (skip)
        mask &= _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    _mm512_mask_storeu_ps(sum, mask, tlc_avx512_weighted(old, value, weight));
}

TLC_AVX512 void tlc_values_add_avx512(const float *v, size_t n, float weight, int skip, float *sum)
{
    const __m512 w = _mm512_set1_ps(weight);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        add16(v + i, ALL_LANES, w, skip, sum + i);
    if (i < n)
        add16(v + i, tlc_avx512_lanes(n - i), w, skip, sum + i);
}
#endif
