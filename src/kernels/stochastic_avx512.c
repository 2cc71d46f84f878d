/* SPDX-License-Identifier: MIT */
#include "avx512.h"

#if defined(__x86_64__)

/* The bits of the values that are sent, 0 for the others. As integers they have the sign of x and are not 0. */
TLC_AVX512_INLINE __m512i sent16(const float *x, const uint32_t *words, __mmask16 mask, __m512 max)
{
    __m512 value = _mm512_maskz_loadu_ps(mask, x), magnitude = _mm512_abs_ps(value);
    __m512 u = _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_maskz_loadu_epi32(mask, words), 8));
    __m512 level = _mm512_mul_ps(_mm512_mul_ps(u, _mm512_set1_ps(0x1p-24f)), max);

    return _mm512_maskz_mov_epi32(_mm512_cmp_ps_mask(level, magnitude, _CMP_LT_OQ), _mm512_castps_si512(value));
}

TLC_AVX512_INLINE void encode64(const float *x, const uint32_t *words, __mmask64 mask, __m512 max, int8_t *q)
{
    __m512i a = sent16(x, words, (__mmask16)mask, max);
    __m512i b = sent16(x + LANES, words + LANES, (__mmask16)(mask >> 16), max);
    __m512i c = sent16(x + 2 * LANES, words + 2 * LANES, (__mmask16)(mask >> 32), max);
    __m512i d = sent16(x + 3 * LANES, words + 3 * LANES, (__mmask16)(mask >> 48), max);
    /* packing saturates, so no sign is lost */
    __m512i signs = _mm512_packs_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));

    signs = _mm512_min_epi8(_mm512_max_epi8(signs, _mm512_set1_epi8(-1)), _mm512_set1_epi8(1));
    _mm512_mask_storeu_epi8(q, mask, tlc_avx512_ordered(signs));
}

TLC_AVX512 void tlc_stochastic_encode_avx512(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    __m512 all_max = _mm512_set1_ps(max);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        encode64(x + i, words + i, ALL_BYTES, all_max, q + i);
    if (i < n)
        encode64(x + i, words + i, tlc_avx512_bytes(n - i), all_max, q + i);
}
#endif
