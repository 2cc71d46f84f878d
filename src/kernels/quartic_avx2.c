/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

TLC_AVX2 void tlc_quartic_encode_avx2(const int8_t *const q[5], size_t len, uint8_t *out)
{
    size_t i = 0;

    for (; i + BYTES <= len; i += BYTES) {
        __m256i a = tlc_avx2_load(q[0] + i);
        for (int k = 1; k < 5; k++)
            a = tlc_avx2_horner(a, tlc_avx2_load(q[k] + i));
        tlc_avx2_store(out + i, _mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO)));
    }
    for (; i + 8 <= len; i += 8) {
        __m128i a = tlc_avx2_load8(q[0] + i);
        for (int k = 1; k < 5; k++)
            a = _mm_add_epi8(_mm_add_epi8(a, a), _mm_add_epi8(a, tlc_avx2_load8(q[k] + i)));
        tlc_avx2_store8(out + i, _mm_add_epi8(a, _mm_set1_epi8(TLC_QUARTIC_ZERO)));
    }
    if (i == len)
        return;
    const int8_t *const tail[5] = {q[0] + i, q[1] + i, q[2] + i, q[3] + i, q[4] + i};
    tlc_quartic_encode_scalar(tail, len - i, out + i);
}

/* The two low bits of each byte, minus 1. */
TLC_AVX2_INLINE __m256i symbols(__m256i digits)
{
    return _mm256_sub_epi8(_mm256_and_si256(digits, _mm256_set1_epi8(3)), _mm256_set1_epi8(1));
}

/* Stores eight symbols of a stream. Their digits are the low two bits of eight words. */
TLC_AVX2_INLINE void store_symbols8(int8_t *q, __m128i digits)
{
    digits = _mm_sub_epi16(_mm_and_si128(digits, _mm_set1_epi16(3)), _mm_set1_epi16(1));
    tlc_avx2_store8(q, _mm_packs_epi16(digits, digits));
}

TLC_AVX2 void tlc_quartic_decode_avx2(const uint8_t *in, size_t len, int8_t *const q[5])
{
    const __m256i low = _mm256_set1_epi16(0xff);
    size_t i = 0;

    for (; i + BYTES <= len; i += BYTES) {
        __m256i bytes = tlc_avx2_load(in + i);
        __m256i even = tlc_avx2_digits(_mm256_and_si256(bytes, low)),
                odd = tlc_avx2_digits(_mm256_srli_epi16(bytes, 8));
        __m256i rest = _mm256_or_si256(_mm256_and_si256(even, low), _mm256_slli_epi16(odd, 8));
        __m256i top = _mm256_or_si256(_mm256_srli_epi16(even, 8), _mm256_andnot_si256(low, odd));

        tlc_avx2_store(q[0] + i, symbols(top));
        tlc_avx2_store(q[1] + i, symbols(_mm256_srli_epi16(rest, 6)));
        tlc_avx2_store(q[2] + i, symbols(_mm256_srli_epi16(rest, 4)));
        tlc_avx2_store(q[3] + i, symbols(_mm256_srli_epi16(rest, 2)));
        tlc_avx2_store(q[4] + i, symbols(rest));
    }
    for (; i + 8 <= len; i += 8) {
        __m128i digits = _mm256_castsi256_si128(tlc_avx2_digits(_mm256_cvtepu8_epi16(tlc_avx2_load8(in + i))));

        store_symbols8(q[0] + i, _mm_srli_epi16(digits, 8));
        store_symbols8(q[1] + i, _mm_srli_epi16(digits, 6));
        store_symbols8(q[2] + i, _mm_srli_epi16(digits, 4));
        store_symbols8(q[3] + i, _mm_srli_epi16(digits, 2));
        store_symbols8(q[4] + i, digits);
    }
    if (i == len)
        return;
    int8_t *const tail[5] = {q[0] + i, q[1] + i, q[2] + i, q[3] + i, q[4] + i};
    tlc_quartic_decode_scalar(in + i, len - i, tail);
}

TLC_AVX2 uint8_t tlc_bytes_max_avx2(const uint8_t *in, size_t len)
{
    if (len < 32)
        return tlc_bytes_max_scalar(in, len);
    __m256i max = tlc_avx2_load(in + len - 32);
    for (size_t i = 0; i + 32 < len; i += 32)
        max = _mm256_max_epu8(max, tlc_avx2_load(in + i));
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 8));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 4));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 2));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 1));
    return (uint8_t)_mm_cvtsi128_si32(m);
}

TLC_AVX2_INLINE __m256i not_allowed(__m256i x, const tlc_bytes_rule *rule)
{
    const __m256i above = _mm256_set1_epi8((char)rule->above);
    __m256i kept = _mm256_and_si256(x, _mm256_set1_epi8((char)rule->keep));
    __m256i from = _mm256_sub_epi8(kept, _mm256_set1_epi8((char)rule->least));
    __m256i good = _mm256_cmpeq_epi8(_mm256_min_epu8(from, above), from);

    good = _mm256_or_si256(good, _mm256_cmpeq_epi8(x, _mm256_set1_epi8((char)rule->other)));
    return _mm256_xor_si256(good, _mm256_set1_epi8(-1));
}

TLC_AVX2 int tlc_bytes_allowed_avx2(const uint8_t *in, size_t len, const tlc_bytes_rule *rule)
{
    __m256i bad = _mm256_setzero_si256();
    size_t i = 0;

    for (; len - i >= 32; i += 32)
        bad = _mm256_or_si256(bad, not_allowed(tlc_avx2_load(in + i), rule));
    return _mm256_testz_si256(bad, bad) && tlc_bytes_allowed_scalar(in + i, len - i, rule);
}
#endif
