/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

TLC_AVX2_INLINE void add8(const float *v, __m256 weight, __m256 all, float *sum)
{
    __m256 value = _mm256_loadu_ps(v), old = _mm256_loadu_ps(sum);
    __m256 changed = _mm256_or_ps(_mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ), all);

    _mm256_storeu_ps(sum, _mm256_blendv_ps(old, tlc_avx2_weighted(old, value, weight), changed));
}

TLC_AVX2 void tlc_values_add_avx2(const float *v, size_t n, float weight, int skip, float *sum)
{
    const __m256 w = _mm256_set1_ps(weight), all = _mm256_castsi256_ps(_mm256_set1_epi32(skip ? 0 : -1));
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        add8(v + i, w, all, sum + i);
    if (i < n)
        tlc_values_add_scalar(v + i, n - i, weight, skip, sum + i);
}
#endif
