/* SPDX-License-Identifier: MIT */
#include "avx512.h"
#include "inverse.h"

#if defined(__x86_64__)

/* Compares u and y - floor(y), both multiplied by 2^24, which is exact. */
TLC_AVX512_INLINE void encode16(const float *x, const uint32_t *words, __mmask16 mask, __m512 max, __m512 K, int8_t *q)
{
    __m512 y = _mm512_mul_ps(_mm512_div_ps(_mm512_maskz_loadu_ps(mask, x), max), K);
    __m512i level;

    if (words) {
        __m512 floor = _mm512_floor_ps(y);
        __m512 u = _mm512_cvtepi32_ps(_mm512_srli_epi32(_mm512_maskz_loadu_epi32(mask, words), 8));
        __m512 rest = _mm512_mul_ps(_mm512_sub_ps(y, floor), _mm512_set1_ps(0x1p24f));

        level = _mm512_cvtps_epi32(floor);
        level = _mm512_mask_add_epi32(level, _mm512_cmp_ps_mask(u, rest, _CMP_LT_OQ), level, _mm512_set1_epi32(1));
    } else
        level = _mm512_cvtps_epi32(y);
    _mm_mask_storeu_epi8(q, mask, _mm512_cvtepi32_epi8(level));
}

TLC_AVX512_INLINE void encode(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    __m512 all_max = _mm512_set1_ps(max), all_K = _mm512_set1_ps(K);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        encode16(x + i, words ? words + i : NULL, ALL_LANES, all_max, all_K, q + i);
    if (i < n)
        encode16(x + i, words ? words + i : NULL, tlc_avx512_lanes(n - i), all_max, all_K, q + i);
}

TLC_AVX512 void tlc_levels_encode_avx512(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    if (words)
        encode(x, words, n, max, K, q);
    else
        encode(x, NULL, n, max, K, q);
}

TLC_AVX512_INLINE void decode16(const int8_t *q, __mmask16 mask, __m512 max, __m512 high, __m512 low, float *out)
{
    __m512 level = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, q)));
    __m512 quotient = _mm512_add_ps(_mm512_mul_ps(level, high), _mm512_mul_ps(level, low));

    _mm512_mask_storeu_ps(out, mask, _mm512_mul_ps(max, quotient));
}

TLC_AVX512 void tlc_levels_decode_avx512(const int8_t *q, size_t n, float max, float K, float *out)
{
    tlc_inverse inverse = tlc_inverse_of(K);
    __m512 all_max = _mm512_set1_ps(max), high = _mm512_set1_ps(inverse.high), low = _mm512_set1_ps(inverse.low);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        decode16(q + i, ALL_LANES, all_max, high, low, out + i);
    if (i < n)
        decode16(q + i, tlc_avx512_lanes(n - i), all_max, high, low, out + i);
}

/* Each pair of nibbles as low + 16 high. */
TLC_AVX512_INLINE __m256i pack64(__m512i q)
{
    __m512i nibbles = _mm512_and_si512(q, _mm512_set1_epi8(15));
    return _mm512_cvtepi16_epi8(_mm512_maddubs_epi16(nibbles, _mm512_set1_epi16(0x1001)));
}

TLC_AVX512 void tlc_nibbles_pack_avx512(const int8_t *q, size_t n, uint8_t *out)
{
    size_t i = 0;

    for (; n - i >= BYTES; i += BYTES)
        _mm256_storeu_si256((__m256i *)(void *)(out + i / 2), pack64(_mm512_loadu_si512(q + i)));
    if (i < n)
        _mm256_mask_storeu_epi8(out + i / 2, (__mmask32)tlc_avx512_bytes((n - i + 1) / 2),
                                pack64(_mm512_maskz_loadu_epi8(tlc_avx512_bytes(n - i), q + i)));
}

/* The nibbles of 32 bytes. A table gives them their signs; the upper bits of its indices are 0. */
TLC_AVX512_INLINE __m512i unpack32(__m256i bytes)
{
    const __m512i table = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1));
    __m512i low = _mm512_cvtepu8_epi16(bytes), both = _mm512_or_si512(low, _mm512_slli_epi16(low, 4));

    return _mm512_shuffle_epi8(table, _mm512_and_si512(both, _mm512_set1_epi8(15)));
}

TLC_AVX512 void tlc_nibbles_unpack_avx512(const uint8_t *in, size_t n, int8_t *q)
{
    size_t i = 0;

    for (; n - i >= BYTES; i += BYTES)
        _mm512_storeu_si512(q + i, unpack32(_mm256_loadu_si256((const __m256i *)(const void *)(in + i / 2))));
    if (i < n)
        _mm512_mask_storeu_epi8(q + i, tlc_avx512_bytes(n - i),
                                unpack32(
                                    _mm256_maskz_loadu_epi8((__mmask32)tlc_avx512_bytes((n - i + 1) / 2), in + i / 2)));
}
#endif
