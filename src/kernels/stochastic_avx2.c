/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

enum { LANES = 8, GROUP = 4 * LANES };

/* The bits of the values that are sent, 0 for the others: as integers they have the sign of x, and are not 0. */
INLINE __m256i sent8(const float *x, const uint32_t *words, __m256 max)
{
    __m256 value = _mm256_loadu_ps(x), magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), value);
    __m256i word = _mm256_loadu_si256((const __m256i *)(const void *)words);
    __m256 u = _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8)), _mm256_set1_ps(0x1p-24f));

    return _mm256_castps_si256(_mm256_and_ps(_mm256_cmp_ps(_mm256_mul_ps(u, max), magnitude, _CMP_LT_OQ), value));
}

AVX2 void tlc_stochastic_encode_avx2(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    /* packing saturates, so a sign is never lost; it works on each half for itself */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256 all_max = _mm256_set1_ps(max);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        __m256i a = sent8(x + i, words + i, all_max), b = sent8(x + i + 8, words + i + 8, all_max);
        __m256i c = sent8(x + i + 16, words + i + 16, all_max), d = sent8(x + i + 24, words + i + 24, all_max);
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        bytes = _mm256_sign_epi8(_mm256_set1_epi8(1), _mm256_permutevar8x32_epi32(bytes, order));
        _mm256_storeu_si256((__m256i *)(void *)(q + i), bytes);
    }
    if (i < n)
        tlc_stochastic_encode_scalar(x + i, words + i, n - i, max, q + i);
}
#endif
