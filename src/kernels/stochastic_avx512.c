/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#define INLINE AVX512 __attribute__((always_inline)) static inline

enum { LANES = 16, GROUP = 4 * LANES };
#define ALL (~(__mmask64)0)

INLINE __mmask64 lanes(size_t left)
{
    return left < GROUP ? ((__mmask64)1 << left) - 1 : ALL;
}

/* The bits of the values that are sent, 0 for the others: as integers they have the sign of x, and are not 0. */
INLINE __m512i sent16(const float *x, const uint32_t *words, __mmask16 mask, __m512 max)
{
    __m512 value = _mm512_maskz_loadu_ps(mask, x), magnitude = _mm512_abs_ps(value);
    __m512 u = _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_maskz_loadu_epi32(mask, words), 8));
    __m512 level = _mm512_mul_ps(_mm512_mul_ps(u, _mm512_set1_ps(0x1p-24f)), max);

    return _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(level, magnitude, _CMP_LT_OQ), _mm512_castps_si512(value));
}

INLINE void encode64(const float *x, const uint32_t *words, __mmask64 mask, __m512 max, int8_t *q)
{
    /* packing saturates, so a sign is never lost; it works on each 128-bit part for itself */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i a = sent16(x, words, (__mmask16)mask, max);
    __m512i b = sent16(x + LANES, words + LANES, (__mmask16)(mask >> 16), max);
    __m512i c = sent16(x + 2 * LANES, words + 2 * LANES, (__mmask16)(mask >> 32), max);
    __m512i d = sent16(x + 3 * LANES, words + 3 * LANES, (__mmask16)(mask >> 48), max);
    __m512i signs = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));

    signs = _mm512_min_epi8(_mm512_max_epi8(signs, _mm512_set1_epi8(-1)), _mm512_set1_epi8(1));
    _mm512_mask_storeu_epi8(q, mask, _mm512_permutexvar_epi32(order, signs));
}

AVX512 void tlc_stochastic_encode_avx512(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    __m512 all_max = _mm512_set1_ps(max);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        encode64(x + i, words + i, ALL, all_max, q + i);
    if (i < n)
        encode64(x + i, words + i, lanes(n - i), all_max, q + i);
}
#endif
