/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { LANES = 16 };
#define ALL ((__mmask16)0xffff)

INLINE void add16(const float *v, __mmask16 mask, __m512 weight, int skip, float *sum)
{
    __m512 value = _mm512_maskz_loadu_ps(mask, v), old = _mm512_maskz_loadu_ps(mask, sum);
    __m512 product = _mm512_mul_ps(value, weight);

    TLC_OPAQUE(product); /* rounded before it is added */
    __m512 x = _mm512_add_ps(old, product);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);

    if (skip)
        mask &= _mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_NEQ_UQ);
    x = _mm512_mask_mov_ps(x, nan, _mm512_castsi512_ps(_mm512_set1_epi32(TLC_F32_NAN)));
    _mm512_mask_storeu_ps(sum, mask, x);
}

AVX512 void tlc_values_add_avx512(const float *v, size_t n, float weight, int skip, float *sum)
{
    const __m512 w = _mm512_set1_ps(weight);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        add16(v + i, ALL, w, skip, sum + i);
    if (i < n)
        add16(v + i, (__mmask16)((1u << (n - i)) - 1), w, skip, sum + i);
}
#endif
