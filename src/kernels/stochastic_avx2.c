/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

/* The bits of the values that are sent, 0 for the others. As integers they have the sign of x and are not 0. */
TLC_AVX2_INLINE __m256i sent8(const float *x, const uint32_t *words, __m256 max)
{
    __m256 value = _mm256_loadu_ps(x), magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), value);
    __m256i word = tlc_avx2_load(words);
    __m256 u = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8)), _mm256_set1_ps(0x1p-24f));

    return _mm256_castps_si256(_mm256_and_ps(_mm256_cmp_ps(_mm256_mul_ps(u, max), magnitude, _CMP_LT_OQ), value));
}

TLC_AVX2 void tlc_stochastic_encode_avx2(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    __m256 all_max = _mm256_set1_ps(max);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        __m256i a = sent8(x + i, words + i, all_max), b = sent8(x + i + 8, words + i + 8, all_max);
        __m256i c = sent8(x + i + 16, words + i + 16, all_max), d = sent8(x + i + 24, words + i + 24, all_max);
        tlc_avx2_store(q + i, tlc_avx2_symbols(tlc_avx2_pack32(a, b, c, d)));
    }
    if (i < n)
        tlc_stochastic_encode_scalar(x + i, words + i, n - i, max, q + i);
}
#endif
