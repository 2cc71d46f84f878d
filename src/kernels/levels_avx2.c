/* SPDX-License-Identifier: MIT */
#include "avx2.h"
#include "inverse.h"

#if defined(__x86_64__)

/* Compares u and y - floor(y), both multiplied by 2^24, which is exact. */
TLC_AVX2_INLINE __m256i levels8(const float *x, const uint32_t *words, __m256 max, __m256 K)
{
    __m256 y = _mm256_mul_ps(_mm256_div_ps(_mm256_loadu_ps(x), max), K);

    if (!words)
        return _mm256_cvtps_epi32(y);
    __m256 floor = _mm256_floor_ps(y), rest = _mm256_mul_ps(_mm256_sub_ps(y, floor), _mm256_set1_ps(0x1p24f));
    __m256i word = tlc_avx2_load(words);
    __m256 up = _mm256_cmp_ps(_mm256_cvtepi32_ps(_mm256_srli_epi32(word, 8)), rest, _CMP_LT_OQ);

    return _mm256_sub_epi32(_mm256_cvtps_epi32(floor), _mm256_castps_si256(up)); /* true is -1 */
}

TLC_AVX2_INLINE void encode(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    __m256 all_max = _mm256_set1_ps(max), all_K = _mm256_set1_ps(K);
    size_t i = 0;

    for (; n - i >= BYTES; i += BYTES) {
        __m256i a = levels8(x + i, words ? words + i : NULL, all_max, all_K);
        __m256i b = levels8(x + i + 8, words ? words + i + 8 : NULL, all_max, all_K);
        __m256i c = levels8(x + i + 16, words ? words + i + 16 : NULL, all_max, all_K);
        __m256i d = levels8(x + i + 24, words ? words + i + 24 : NULL, all_max, all_K);
        tlc_avx2_store(q + i, tlc_avx2_pack32(a, b, c, d));
    }
    if (i < n)
        tlc_levels_encode_scalar(x + i, words ? words + i : NULL, n - i, max, K, q + i);
}

TLC_AVX2 void tlc_levels_encode_avx2(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    if (words)
        encode(x, words, n, max, K, q);
    else
        encode(x, NULL, n, max, K, q);
}

TLC_AVX2 void tlc_levels_decode_avx2(const int8_t *q, size_t n, float max, float K, float *out)
{
    tlc_inverse inverse = tlc_inverse_of(K);
    __m256 all_max = _mm256_set1_ps(max), high = _mm256_set1_ps(inverse.high), low = _mm256_set1_ps(inverse.low);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        __m256i wide = _mm256_cvtepi8_epi32(tlc_avx2_load8(q + i));
        __m256 level = _mm256_cvtepi32_ps(wide);
        __m256 quotient = _mm256_add_ps(_mm256_mul_ps(level, high), _mm256_mul_ps(level, low));
        _mm256_storeu_ps(out + i, _mm256_mul_ps(all_max, quotient));
    }
    if (i < n)
        tlc_levels_decode_scalar(q + i, n - i, max, K, out + i);
}

/* Each pair of nibbles as low + 16 high, in 16 bits. */
TLC_AVX2_INLINE __m256i pairs(const int8_t *q)
{
    __m256i nibbles = _mm256_and_si256(tlc_avx2_load(q), _mm256_set1_epi8(15));
    return _mm256_maddubs_epi16(nibbles, _mm256_set1_epi16(0x1001));
}

TLC_AVX2 void tlc_nibbles_pack_avx2(const int8_t *q, size_t n, uint8_t *out)
{
    size_t i = 0;

    for (; n - i >= 2 * BYTES; i += 2 * BYTES) {
        __m256i bytes = _mm256_packus_epi16(pairs(q + i), pairs(q + i + BYTES));
        tlc_avx2_store(out + i / 2, _mm256_permute4x64_epi64(bytes, _MM_SHUFFLE(3, 1, 2, 0)));
    }
    if (i < n)
        tlc_nibbles_pack_scalar(q + i, n - i, out + i / 2);
}

/* A table gives nibbles their signs. The upper bits of its indices are 0. */
TLC_AVX2 void tlc_nibbles_unpack_avx2(const uint8_t *in, size_t n, int8_t *q)
{
    const __m128i signs = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1);
    const __m256i table = _mm256_broadcastsi128_si256(signs);
    size_t i = 0;

    for (; n - i >= BYTES; i += BYTES) {
        __m256i low = _mm256_cvtepu8_epi16(tlc_avx2_load16(in + i / 2));
        __m256i both = _mm256_and_si256(_mm256_or_si256(low, _mm256_slli_epi16(low, 4)), _mm256_set1_epi8(15));
        tlc_avx2_store(q + i, _mm256_shuffle_epi8(table, both));
    }
    if (i < n)
        tlc_nibbles_unpack_scalar(in + i / 2, n - i, q + i);
}
#endif
