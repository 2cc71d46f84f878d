/* SPDX-License-Identifier: MIT
 *
 * The method of natural_avx512.c, 32 values at a time.
 */
#include "avx2.h"

#if defined(__x86_64__)

/* 32 values in order: their biased exponents (a subnormal counts as a normal number), bytes with the sign as their
 * highest bit, and bytes -1 where they are 0. */
typedef struct rounded {
    __m256i exponents, signs, zeros;
} rounded;

/* Sign and exponent, 0..511, of 8 values. (word >> 9) < m if and only if m + (2^23 - 1 - (word >> 9)) >= 2^23. */
TLC_AVX2_INLINE __m256i round8(const float *x, const uint32_t *words, __m256i *zeros)
{
    __m256i bits = tlc_avx2_load(x), added = _mm256_set1_epi32(0x400000);

    *zeros = _mm256_cmpeq_epi32(_mm256_add_epi32(bits, bits), _mm256_setzero_si256());
    if (words) {
        __m256i word = tlc_avx2_load(words);
        added = _mm256_sub_epi32(_mm256_set1_epi32(0x7fffff), _mm256_srli_epi32(word, 9));
    }
    return _mm256_srli_epi32(_mm256_add_epi32(bits, added), 23);
}

TLC_AVX2_INLINE rounded round32(const float *x, const uint32_t *words)
{
    const __m256i byte = _mm256_set1_epi16(0xff);
    __m256i z0, z1, z2, z3;
    __m256i a = round8(x, words, &z0), b = round8(x + 8, words ? words + 8 : NULL, &z1);
    __m256i c = round8(x + 16, words ? words + 16 : NULL, &z2), d = round8(x + 24, words ? words + 24 : NULL, &z3);
    rounded r = {.zeros = tlc_avx2_pack32(z0, z1, z2, z3)};

    a = _mm256_packus_epi32(a, b);
    c = _mm256_packus_epi32(c, d);
    r.exponents = tlc_avx2_ordered(_mm256_packus_epi16(_mm256_and_si256(a, byte), _mm256_and_si256(c, byte)));
    r.signs = tlc_avx2_ordered(_mm256_packs_epi16(_mm256_slli_epi16(a, 7), _mm256_slli_epi16(c, 7)));
    return r;
}

TLC_AVX2_INLINE __m256i all(int byte)
{
    return _mm256_set1_epi8((char)byte);
}

TLC_AVX2_INLINE uint32_t count(__m256i bytes)
{
    return (uint32_t)__builtin_popcount(tlc_avx2_signs(bytes));
}

/* How many of the values that are not 0 are greater than most. */
TLC_AVX2_INLINE uint32_t count_greater(__m256i bytes, int most, __m256i zeros)
{
    return GROUP - count(_mm256_or_si256(zeros, _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, all(most)), bytes)));
}

/* Codes 0..60 from biased exponents. Subnormals and what they round to are below code 0 for every shift. */
TLC_AVX2_INLINE uint32_t encode32(const float *x, const uint32_t *words, int shift, uint8_t *out)
{
    const int least = TLC_NATURAL_LEAST + 127 + shift, codes = TLC_NATURAL_MOST - TLC_NATURAL_LEAST;
    rounded r = round32(x, words);
    __m256i code = _mm256_min_epu8(_mm256_subs_epu8(r.exponents, all(least)), all(codes));

    code = _mm256_or_si256(code, _mm256_and_si256(r.signs, all(0x80)));
    tlc_avx2_store(out, _mm256_blendv_epi8(code, all(TLC_NATURAL_ZERO), r.zeros));
    return count_greater(_mm256_sub_epi8(r.exponents, all(least)), codes, r.zeros); /* lower ones wrap */
}

TLC_AVX2_INLINE uint64_t encode(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    uint64_t clipped = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        clipped += encode32(x + i, words ? words + i : NULL, shift, out + i);
    if (i < n)
        clipped += tlc_natural_encode_scalar(x + i, words ? words + i : NULL, n - i, shift, out + i);
    return clipped;
}

TLC_AVX2 uint64_t tlc_natural_encode_avx2(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    return words ? encode(x, words, n, shift, out) : encode(x, NULL, n, shift, out);
}

TLC_AVX2_INLINE __m256i widen8(const uint8_t *in)
{
    return _mm256_cvtepu8_epi32(tlc_avx2_load8(in));
}

/* 0 where zeros is set, else the exponent in the low bits of e and the sign in the highest bit of s. */
TLC_AVX2_INLINE __m256i powers8(__m256i e, __m256i s, __m256i zeros)
{
    __m256i sign = _mm256_and_si256(s, _mm256_set1_epi32(INT32_MIN));
    return _mm256_andnot_si256(zeros, _mm256_or_si256(_mm256_slli_epi32(e, 23), sign));
}

/* The values of 8 codes. *zeros: those that are 0. */
TLC_AVX2_INLINE __m256i values8(const uint8_t *in, __m256i least, __m256i *zeros)
{
    __m256i code = widen8(in), e = _mm256_add_epi32(_mm256_and_si256(code, _mm256_set1_epi32(0x7f)), least);

    *zeros = _mm256_cmpeq_epi32(code, _mm256_set1_epi32(TLC_NATURAL_ZERO));
    return powers8(e, _mm256_slli_epi32(code, 24), *zeros);
}

TLC_AVX2 void tlc_natural_decode_avx2(const uint8_t *in, size_t n, int shift, float *out)
{
    const __m256i least = _mm256_set1_epi32(TLC_NATURAL_LEAST + 127 + shift);
    __m256i zeros;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        tlc_avx2_store(out + i, values8(in + i, least, &zeros));
    if (i < n)
        tlc_natural_decode_scalar(in + i, n - i, shift, out + i);
}

TLC_AVX2 void tlc_natural_add_avx2(const uint8_t *in, size_t n, int shift, float weight, float *sum)
{
    const __m256i least = _mm256_set1_epi32(TLC_NATURAL_LEAST + 127 + shift);
    const __m256 w = _mm256_set1_ps(weight);
    __m256i zeros;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        __m256 value = _mm256_castsi256_ps(values8(in + i, least, &zeros)), old = _mm256_loadu_ps(sum + i);
        __m256 added = tlc_avx2_weighted(old, value, w);
        _mm256_storeu_ps(sum + i, _mm256_blendv_ps(added, old, _mm256_castsi256_ps(zeros)));
    }
    if (i < n)
        tlc_natural_add_scalar(in + i, n - i, shift, weight, sum + i);
}

/* Biased exponents 1..254 - shift. A subnormal becomes 1 whatever it rounds to, but without a shift its bits do not
 * tell whether that is clipping. This is rare, and the scalar kernel takes over. */
TLC_AVX2_INLINE uint64_t encode9(const float *x, const uint32_t *words, int shift, uint8_t *out, uint8_t *signs)
{
    rounded r = round32(x, words);
    uint32_t negative = tlc_avx2_signs(_mm256_andnot_si256(r.zeros, r.signs));

    if (shift == 0 && count_greater(r.exponents, 1, r.zeros) != GROUP - count(r.zeros))
        return tlc_natural9_encode_scalar(x, words, GROUP, shift, out, signs);
    __m256i byte = _mm256_min_epu8(_mm256_subs_epu8(r.exponents, all(shift)), all(254 - shift));

    tlc_avx2_store(out, _mm256_andnot_si256(r.zeros, _mm256_max_epu8(byte, all(1))));
    memcpy(signs, &negative, sizeof negative);
    return count_greater(_mm256_sub_epi8(r.exponents, all(shift + 1)), 253 - shift, r.zeros); /* lower ones wrap */
}

TLC_AVX2_INLINE uint64_t encode9_all(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                     uint8_t *signs)
{
    uint64_t clipped = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        clipped += encode9(x + i, words ? words + i : NULL, shift, out + i, signs + i / 8);
    if (i < n)
        clipped += tlc_natural9_encode_scalar(x + i, words ? words + i : NULL, n - i, shift, out + i, signs + i / 8);
    return clipped;
}

TLC_AVX2 uint64_t tlc_natural9_encode_avx2(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                           uint8_t *signs)
{
    return words ? encode9_all(x, words, n, shift, out, signs) : encode9_all(x, NULL, n, shift, out, signs);
}

TLC_AVX2 void tlc_natural9_decode_avx2(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out)
{
    const __m256i to_highest = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24), by = _mm256_set1_epi32(shift);
    size_t i = 0;

    for (; n - i >= LANES; i += LANES) {
        __m256i byte = widen8(in + i), sign = _mm256_sllv_epi32(_mm256_set1_epi32(signs[i / 8]), to_highest);
        tlc_avx2_store(out + i,
                       powers8(_mm256_add_epi32(byte, by), sign, _mm256_cmpeq_epi32(byte, _mm256_setzero_si256())));
    }
    if (i < n)
        tlc_natural9_decode_scalar(in + i, signs + i / 8, n - i, shift, out + i);
}
#endif
