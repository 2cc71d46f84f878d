/* SPDX-License-Identifier: MIT
 *
 * 64 values at a time. Adding a random unit (or half a unit) below the exponent carries into it when it must, and
 * leaves sign and biased exponent in the upper nine bits. These are packed to 16 bits, then to bytes.
 */
#include "avx512.h"

#if defined(__x86_64__)

/* 64 values in order: their biased exponents (a subnormal counts as a normal number), bytes with the sign as their
 * highest bit, and which are 0. Those that are masked out are 0. */
typedef struct rounded {
    __m512i exponents, signs;
    __mmask64 zeros;
} rounded;

/* Sign and exponent, 0..511, of 16 values. (word >> 9) < m if and only if m + (2^23 - 1 - (word >> 9)) >= 2^23. */
TLC_AVX512_INLINE __m512i round16(const float *x, const uint32_t *words, __mmask16 mask, __mmask16 *zeros)
{
    __m512i bits = _mm512_maskz_loadu_epi32(mask, x), added = _mm512_set1_epi32(0x400000);

    *zeros = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32((int)TLC_F32_ABS));
    if (words)
        added = _mm512_sub_epi32(_mm512_set1_epi32(0x7fffff),
                                 _mm512_srli_epi32(_mm512_maskz_loadu_epi32(mask, words), 9));
    return _mm512_srli_epi32(_mm512_add_epi32(bits, added), 23);
}

TLC_AVX512_INLINE rounded round64(const float *x, const uint32_t *words, __mmask64 mask)
{
    const __m512i byte = _mm512_set1_epi16(0xff);
    __mmask16 z0, z1, z2, z3;
    __m512i a = round16(x, words, (__mmask16)mask, &z0);
    __m512i b = round16(x + LANES, words ? words + LANES : NULL, (__mmask16)(mask >> 16), &z1);
    __m512i c = round16(x + 2 * LANES, words ? words + 2 * LANES : NULL, (__mmask16)(mask >> 32), &z2);
    __m512i d = round16(x + 3 * LANES, words ? words + 3 * LANES : NULL, (__mmask16)(mask >> 48), &z3);
    rounded r = {.zeros = tlc_avx512_join(z0, z1, z2, z3)};

    a = _mm512_packus_epi32(a, b);
    c = _mm512_packus_epi32(c, d);
    r.exponents = tlc_avx512_ordered(_mm512_packus_epi16(_mm512_and_si512(a, byte), _mm512_and_si512(c, byte)));
    r.signs = tlc_avx512_ordered(_mm512_packs_epi16(_mm512_slli_epi16(a, 7), _mm512_slli_epi16(c, 7)));
    return r;
}

TLC_AVX512_INLINE __m512i all(int byte)
{
    return _mm512_set1_epi8((char)byte);
}

/* Codes 0..60 from biased exponents. Subnormals and what they round to are below code 0 for every shift. */
TLC_AVX512_INLINE uint64_t encode64(const float *x, const uint32_t *words, __mmask64 mask, int shift, uint8_t *out)
{
    const int least = TLC_NATURAL_LEAST + 127 + shift, codes = TLC_NATURAL_MOST - TLC_NATURAL_LEAST;
    rounded r = round64(x, words, mask);
    __m512i code = _mm512_min_epu8(_mm512_subs_epu8(r.exponents, all(least)), all(codes));
    __mmask64 clipped = _mm512_cmpgt_epu8_mask(_mm512_sub_epi8(r.exponents, all(least)), all(codes));

    code = _mm512_ternarylogic_epi32(code, r.signs, all(0x80), 0xf8); /* code | (signs & 0x80) */
    _mm512_mask_storeu_epi8(out, mask, _mm512_mask_mov_epi8(code, r.zeros, all(TLC_NATURAL_ZERO)));
    return (uint64_t)__builtin_popcountll(clipped & ~r.zeros);
}

TLC_AVX512_INLINE uint64_t encode(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    uint64_t clipped = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        clipped += encode64(x + i, words ? words + i : NULL, ALL_BYTES, shift, out + i);
    return i < n ? clipped + encode64(x + i, words ? words + i : NULL, tlc_avx512_bytes(n - i), shift, out + i)
                 : clipped;
}

TLC_AVX512 uint64_t tlc_natural_encode_avx512(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    return words ? encode(x, words, n, shift, out) : encode(x, NULL, n, shift, out);
}

/* The values of 16 codes. *some: those that are not 0. */
TLC_AVX512_INLINE __m512i values16(__m128i codes, int shift, __mmask16 *some)
{
    __m512i wide = _mm512_cvtepu8_epi32(codes), code = _mm512_and_si512(wide, _mm512_set1_epi32(0x7f));
    __m512i exponent = _mm512_add_epi32(code, _mm512_set1_epi32(TLC_NATURAL_LEAST + 127 + shift));

    *some = _mm_cmpneq_epi8_mask(codes, _mm_set1_epi8(TLC_NATURAL_ZERO));
    /* exponent | (sign & 2^31) */
    return _mm512_maskz_ternarylogic_epi32(*some, _mm512_slli_epi32(exponent, 23), _mm512_slli_epi32(wide, 24),
                                           _mm512_set1_epi32(INT32_MIN), 0xf8);
}

TLC_AVX512_INLINE void decode16(const uint8_t *in, __mmask16 mask, int shift, float *out)
{
    __mmask16 some;
    _mm512_mask_storeu_epi32(out, mask, values16(_mm_maskz_loadu_epi8(mask, in), shift, &some));
}

TLC_AVX512 void tlc_natural_decode_avx512(const uint8_t *in, size_t n, int shift, float *out)
{
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        decode16(in + i, ALL_LANES, shift, out + i);
    if (i < n)
        decode16(in + i, tlc_avx512_lanes(n - i), shift, out + i);
}

TLC_AVX512_INLINE void add16(const uint8_t *in, __mmask16 mask, int shift, __m512 weight, float *sum)
{
    __mmask16 some;
    __m512 value = _mm512_castsi512_ps(values16(_mm_maskz_loadu_epi8(mask, in), shift, &some));
    __m512 product = _mm512_mul_ps(value, weight), x;

    TLC_OPAQUE(product); /* rounded before it is added */
    x = _mm512_maskz_loadu_ps(mask, sum);
    x = tlc_avx512_add_where(x, some, product);
    some = _mm512_mask_cmp_ps_mask(some, x, x, _CMP_UNORD_Q);
    _mm512_mask_storeu_ps(sum, mask, _mm512_mask_mov_ps(x, some, tlc_avx512_nan()));
}

TLC_AVX512 void tlc_natural_add_avx512(const uint8_t *in, size_t n, int shift, float weight, float *sum)
{
    const __m512 w = _mm512_set1_ps(weight);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        add16(in + i, ALL_LANES, shift, w, sum + i);
    if (i < n)
        add16(in + i, tlc_avx512_lanes(n - i), shift, w, sum + i);
}

/* Biased exponents 1..254 - shift. A subnormal becomes 1 whatever it rounds to, but without a shift its bits do not
 * tell whether that is clipping. This is rare, and the scalar kernel takes over. */
TLC_AVX512_INLINE uint64_t encode9(const float *x, const uint32_t *words, __mmask64 mask, int shift, uint8_t *out,
                                   uint8_t *signs)
{
    rounded r = round64(x, words, mask);
    uint64_t others = mask & ~r.zeros, negative = _mm512_movepi8_mask(r.signs) & others;
    size_t n = mask == ALL_BYTES ? GROUP : (size_t)__builtin_popcountll(mask);

    if (shift == 0 && _mm512_mask_cmple_epu8_mask(others, r.exponents, all(1)))
        return tlc_natural9_encode_scalar(x, words, n, shift, out, signs);
    __m512i byte = _mm512_min_epu8(_mm512_subs_epu8(r.exponents, all(shift)), all(254 - shift));
    __m512i above = _mm512_sub_epi8(r.exponents, all(shift + 1)); /* lower ones wrap */

    _mm512_mask_storeu_epi8(out, mask, _mm512_maskz_max_epu8(others, byte, all(1)));
    if (mask == ALL_BYTES)
        memcpy(signs, &negative, sizeof negative);
    else
        tlc_copy_few(signs, &negative, (n + 7) / 8);
    return (uint64_t)__builtin_popcountll(_mm512_mask_cmpgt_epu8_mask(others, above, all(253 - shift)));
}

TLC_AVX512_INLINE uint64_t encode9_all(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                       uint8_t *signs)
{
    uint64_t clipped = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        clipped += encode9(x + i, words ? words + i : NULL, ALL_BYTES, shift, out + i, signs + i / 8);
    if (i < n)
        clipped += encode9(x + i, words ? words + i : NULL, tlc_avx512_bytes(n - i), shift, out + i, signs + i / 8);
    return clipped;
}

TLC_AVX512 uint64_t tlc_natural9_encode_avx512(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                               uint8_t *signs)
{
    return words ? encode9_all(x, words, n, shift, out, signs) : encode9_all(x, NULL, n, shift, out, signs);
}

TLC_AVX512_INLINE void decode9(const uint8_t *in, uint64_t negative, __mmask16 mask, int shift, float *out)
{
    __m512i wide = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, in));
    __mmask16 some = _mm512_test_epi32_mask(wide, wide);
    __m512i bits = _mm512_maskz_slli_epi32(some, _mm512_add_epi32(wide, _mm512_set1_epi32(shift)), 23);

    bits = _mm512_mask_or_epi32(bits, some & (__mmask16)negative, bits, _mm512_set1_epi32(INT32_MIN));
    _mm512_mask_storeu_epi32(out, mask, bits);
}

TLC_AVX512 void tlc_natural9_decode_avx512(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out)
{
    uint64_t negative = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        memcpy(&negative, signs + i / 8, sizeof negative);
        for (size_t k = 0; k < GROUP; k += LANES)
            decode9(in + i + k, negative >> k, ALL_LANES, shift, out + i + k);
    }
    tlc_copy_few(&negative, signs + i / 8, (n - i + 7) / 8);
    for (; i < n; i += LANES, negative >>= LANES)
        decode9(in + i, negative, tlc_avx512_lanes(n - i), shift, out + i);
}
#endif
