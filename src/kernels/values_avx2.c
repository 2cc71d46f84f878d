/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

INLINE void add8(const float *v, __m256 weight, __m256 all, float *sum)
{
    __m256 value = _mm256_loadu_ps(v), old = _mm256_loadu_ps(sum);
    __m256 product = _mm256_mul_ps(value, weight);

    TLC_OPAQUE(product); /* rounded before it is added */
    __m256 x = _mm256_add_ps(old, product);
    __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q), changed = _mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_NEQ_UQ);

    x = _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(TLC_F32_NAN)), nan);
    TLC_OPAQUE(x);
    _mm256_storeu_ps(sum, _mm256_blendv_ps(old, x, _mm256_or_ps(changed, all)));
}

AVX2 void tlc_values_add_avx2(const float *v, size_t n, float weight, int skip, float *sum)
{
    const __m256 w = _mm256_set1_ps(weight), all = _mm256_castsi256_ps(_mm256_set1_epi32(skip ? 0 : -1));
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        add8(v + i, w, all, sum + i);
    if (i < n)
        tlc_values_add_scalar(v + i, n - i, weight, skip, sum + i);
}
#endif
