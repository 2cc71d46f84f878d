/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

/* VCVTPH2PS and VCVTPS2PH treat NaNs as convert.h does. */
TLC_AVX2 void tlc_f16_to_f32_avx2(const void *in, size_t n, float *out)
{
    const uint8_t *p = in;
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(tlc_avx2_load16(p + 2 * i)));
    if (i < n)
        tlc_f16_to_f32_scalar(p + 2 * i, n - i, out + i);
}

TLC_AVX2 void tlc_f32_to_f16_avx2(const float *in, size_t n, void *out)
{
    uint8_t *p = out;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        tlc_avx2_store16(p + 2 * i, half);
    }
    if (i < n)
        tlc_f32_to_f16_scalar(in + i, n - i, p + 2 * i);
}

/* All ones in the lanes that are NaN. */
TLC_AVX2_INLINE __m256i is_nan(__m256i bits)
{
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32((int)TLC_F32_ABS));
    return _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32((int)TLC_F32_INF));
}

TLC_AVX2 void tlc_bf16_to_f32_avx2(const void *in, size_t n, float *out)
{
    const uint8_t *p = in;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        __m256i bits = _mm256_slli_epi32(_mm256_cvtepu16_epi32(tlc_avx2_load16(p + 2 * i)), 16);
        __m256i quiet = _mm256_and_si256(is_nan(bits), _mm256_set1_epi32(0x400000));
        tlc_avx2_store(out + i, _mm256_or_si256(bits, quiet));
    }
    if (i < n)
        tlc_bf16_to_f32_scalar(p + 2 * i, n - i, out + i);
}

/* Eight results, in the low halves of 32-bit lanes. */
TLC_AVX2_INLINE __m256i narrow_bf16(__m256i bits)
{
    __m256i cut = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(cut, _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    __m256i quiet = _mm256_or_si256(cut, _mm256_set1_epi32(0x40));

    return _mm256_blendv_epi8(_mm256_srli_epi32(rounded, 16), quiet, is_nan(bits));
}

TLC_AVX2 void tlc_f32_to_bf16_avx2(const float *in, size_t n, void *out)
{
    uint8_t *p = out;
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i a = narrow_bf16(tlc_avx2_load(in + i));
        __m256i b = narrow_bf16(tlc_avx2_load(in + i + 8));
        __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), _MM_SHUFFLE(3, 1, 2, 0));
        tlc_avx2_store(p + 2 * i, words);
    }
    if (i < n)
        tlc_f32_to_bf16_scalar(in + i, n - i, p + 2 * i);
}
#endif
