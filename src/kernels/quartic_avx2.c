/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
#define INLINE static inline __attribute__((always_inline, target("avx2")))

INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

INLINE void store32(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

INLINE __m128i load8(const void *p)
{
    return _mm_loadl_epi64((const __m128i *)p);
}

INLINE void store8(void *p, __m128i v)
{
    _mm_storel_epi64((__m128i *)p, v);
}

AVX2 void tlc_quartic_encode_avx2(const int8_t *const q[5], size_t len, uint8_t *out)
{
    size_t i = 0;

    for (; i + 32 <= len; i += 32) {
        __m256i a = load32(q[0] + i);
        for (int k = 1; k < 5; k++)
            a = _mm256_add_epi8(_mm256_add_epi8(a, a), _mm256_add_epi8(a, load32(q[k] + i)));
        store32(out + i, _mm256_add_epi8(a, _mm256_set1_epi8(TLC_QUARTIC_ZERO)));
    }
    for (; i + 8 <= len; i += 8) {
        __m128i a = load8(q[0] + i);
        for (int k = 1; k < 5; k++)
            a = _mm_add_epi8(_mm_add_epi8(a, a), _mm_add_epi8(a, load8(q[k] + i)));
        store8(out + i, _mm_add_epi8(a, _mm_set1_epi8(TLC_QUARTIC_ZERO)));
    }
    if (i == len)
        return;
    const int8_t *const tail[5] = {q[0] + i, q[1] + i, q[2] + i, q[3] + i, q[4] + i};
    tlc_quartic_encode_scalar(tail, len - i, out + i);
}

/* 16 words b <= 242 to their five digits, two bits each, p0 on top: sum d_k 4^k = b + b/3 + 4 (b/9) + 16 (b/27)
 * + 64 (b/81). Division is a product with ceil(65536/d) (exact up to 242), of which the high half is kept. */
INLINE __m256i packed_digits(__m256i b)
{
    __m256i d = _mm256_mulhi_epu16(b, _mm256_set1_epi16(810));

    d = _mm256_add_epi16(_mm256_slli_epi16(d, 2), _mm256_mulhi_epu16(b, _mm256_set1_epi16(2428)));
    d = _mm256_add_epi16(_mm256_slli_epi16(d, 2), _mm256_mulhi_epu16(b, _mm256_set1_epi16(7282)));
    d = _mm256_slli_epi16(d, 2);
    return _mm256_add_epi16(d, _mm256_add_epi16(b, _mm256_mulhi_epu16(b, _mm256_set1_epi16(21846))));
}

/* The two low bits of each byte, less 1. */
INLINE __m256i symbols(__m256i digits)
{
    return _mm256_sub_epi8(_mm256_and_si256(digits, _mm256_set1_epi8(3)), _mm256_set1_epi8(1));
}

/* Eight symbols of a stream, from its digits at the bottom of eight words. */
INLINE void store_symbols8(int8_t *q, __m128i digits)
{
    digits = _mm_sub_epi16(_mm_and_si128(digits, _mm_set1_epi16(3)), _mm_set1_epi16(1));
    store8(q, _mm_packs_epi16(digits, digits));
}

AVX2 void tlc_quartic_decode_avx2(const uint8_t *in, size_t len, int8_t *const q[5])
{
    const __m256i low = _mm256_set1_epi16(0xff);
    size_t i = 0;

    for (; i + 32 <= len; i += 32) {
        __m256i bytes = load32(in + i);
        __m256i even = packed_digits(_mm256_and_si256(bytes, low)), odd = packed_digits(_mm256_srli_epi16(bytes, 8));
        __m256i rest = _mm256_or_si256(_mm256_and_si256(even, low), _mm256_slli_epi16(odd, 8));
        __m256i top = _mm256_or_si256(_mm256_srli_epi16(even, 8), _mm256_andnot_si256(low, odd));

        store32(q[0] + i, symbols(top));
        store32(q[1] + i, symbols(_mm256_srli_epi16(rest, 6)));
        store32(q[2] + i, symbols(_mm256_srli_epi16(rest, 4)));
        store32(q[3] + i, symbols(_mm256_srli_epi16(rest, 2)));
        store32(q[4] + i, symbols(rest));
    }
    for (; i + 8 <= len; i += 8) {
        __m128i digits = _mm256_castsi256_si128(packed_digits(_mm256_cvtepu8_epi16(load8(in + i))));

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

AVX2 uint8_t tlc_bytes_max_avx2(const uint8_t *in, size_t len)
{
    if (len < 32)
        return tlc_bytes_max_scalar(in, len);
    __m256i max = load32(in + len - 32);
    for (size_t i = 0; i + 32 < len; i += 32)
        max = _mm256_max_epu8(max, load32(in + i));
    __m128i m = _mm_max_epu8(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 8));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 4));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 2));
    m = _mm_max_epu8(m, _mm_srli_si128(m, 1));
    return (uint8_t)_mm_cvtsi128_si32(m);
}
#endif
