/* SPDX-License-Identifier: MIT */
#include "avx512.h"

#if defined(__x86_64__)

/* 3 high + q[i...]. Bytes may wrap; the sum with 121 fits again. */
TLC_AVX512_INLINE __m512i digit(__m512i high, const int8_t *q, size_t i, __mmask64 mask)
{
    __m512i sum = _mm512_add_epi8(high, _mm512_maskz_loadu_epi8(mask, q + i));
    return _mm512_add_epi8(sum, _mm512_add_epi8(high, high));
}

TLC_AVX512_INLINE void encode64(const int8_t *const q[5], size_t i, __mmask64 mask, uint8_t *out)
{
    __m512i byte = _mm512_maskz_loadu_epi8(mask, q[0] + i);

    byte = digit(byte, q[1], i, mask);
    byte = digit(byte, q[2], i, mask);
    byte = digit(byte, q[3], i, mask);
    byte = digit(byte, q[4], i, mask);
    _mm512_mask_storeu_epi8(out + i, mask, _mm512_add_epi8(byte, _mm512_set1_epi8(TLC_QUARTIC_ZERO)));
}

TLC_AVX512 void tlc_quartic_encode_avx512(const int8_t *const q[5], size_t len, uint8_t *out)
{
    size_t i = 0;

    for (; len - i >= BYTES; i += BYTES)
        encode64(q, i, ALL_BYTES, out);
    if (i < len)
        encode64(q, i, tlc_avx512_bytes(len - i), out);
}

/* Stores the symbol of the highest digit of byte, which has this weight. Returns the lower digits. */
TLC_AVX512_INLINE __m512i symbol(__m512i byte, char weight, int8_t *q, __mmask64 mask)
{
    __m512i one = _mm512_set1_epi8(weight), two = _mm512_set1_epi8((char)(2 * weight)), minus = _mm512_set1_epi8(-1);
    __m512i zero = _mm512_mask_set1_epi8(minus, _mm512_cmpge_epu8_mask(byte, one), 0);

    _mm512_mask_storeu_epi8(q, mask, _mm512_mask_set1_epi8(zero, _mm512_cmpge_epu8_mask(byte, two), 1));
    /* The minimum subtracts where the result is not negative: a negative difference wraps to a large one. */
    byte = _mm512_min_epu8(byte, _mm512_sub_epi8(byte, one));
    return _mm512_min_epu8(byte, _mm512_sub_epi8(byte, one));
}

TLC_AVX512_INLINE void decode64(const uint8_t *in, size_t i, __mmask64 mask, int8_t *const q[5])
{
    __m512i byte = _mm512_maskz_loadu_epi8(mask, in + i);

    byte = symbol(byte, 81, q[0] + i, mask);
    byte = symbol(byte, 27, q[1] + i, mask);
    byte = symbol(byte, 9, q[2] + i, mask);
    byte = symbol(byte, 3, q[3] + i, mask);
    _mm512_mask_storeu_epi8(q[4] + i, mask, _mm512_sub_epi8(byte, _mm512_set1_epi8(1)));
}

TLC_AVX512 void tlc_quartic_decode_avx512(const uint8_t *in, size_t len, int8_t *const q[5])
{
    size_t i = 0;

    for (; len - i >= BYTES; i += BYTES)
        decode64(in, i, ALL_BYTES, q);
    if (i < len)
        decode64(in, i, tlc_avx512_bytes(len - i), q);
}

TLC_AVX512_INLINE uint8_t largest(__m512i bytes)
{
    __m256i half = _mm256_max_epu8(_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64(bytes, 1));
    __m128i max = _mm_max_epu8(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));

    max = _mm_max_epu8(max, _mm_srli_si128(max, 8));
    max = _mm_max_epu8(max, _mm_srli_si128(max, 4));
    max = _mm_max_epu8(max, _mm_srli_si128(max, 2));
    max = _mm_max_epu8(max, _mm_srli_si128(max, 1));
    return (uint8_t)_mm_cvtsi128_si32(max);
}

TLC_AVX512 uint8_t tlc_bytes_max_avx512(const uint8_t *in, size_t len)
{
    __m512i even = _mm512_setzero_si512(), odd = even;
    size_t i = 0;

    for (; len - i >= 2 * BYTES; i += 2 * BYTES) {
        even = _mm512_max_epu8(even, _mm512_loadu_si512(in + i));
        odd = _mm512_max_epu8(odd, _mm512_loadu_si512(in + i + BYTES));
    }
    for (; i < len; i += BYTES)
        even = _mm512_max_epu8(even, _mm512_maskz_loadu_epi8(tlc_avx512_bytes(len - i), in + i));
    return largest(_mm512_max_epu8(even, odd));
}

TLC_AVX512_INLINE __mmask64 not_allowed(__m512i x, __mmask64 mask, const tlc_bytes_rule *rule)
{
    __m512i kept = _mm512_and_si512(x, _mm512_set1_epi8((char)rule->keep));
    __m512i from = _mm512_sub_epi8(kept, _mm512_set1_epi8((char)rule->least));
    __mmask64 above = _mm512_mask_cmpgt_epu8_mask(mask, from, _mm512_set1_epi8((char)rule->above));

    return _mm512_mask_cmpneq_epu8_mask(above, x, _mm512_set1_epi8((char)rule->other));
}

TLC_AVX512 int tlc_bytes_allowed_avx512(const uint8_t *in, size_t len, const tlc_bytes_rule *rule)
{
    __mmask64 bad = 0;
    size_t i = 0;

    for (; len - i >= BYTES; i += BYTES)
        bad |= not_allowed(_mm512_loadu_si512(in + i), ~(__mmask64)0, rule);
    if (i < len) {
        __mmask64 mask = tlc_avx512_bytes(len - i);
        bad |= not_allowed(_mm512_maskz_loadu_epi8(mask, in + i), mask, rule);
    }
    return !bad;
}
#endif
