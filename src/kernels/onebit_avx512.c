/* SPDX-License-Identifier: MIT */
#include "avx512.h"

#if defined(__x86_64__)

/* Which x are >= 0, of those in the mask. */
TLC_AVX512_INLINE __mmask16 upper_side(__m512 x, __mmask16 mask)
{
    return _mm512_mask_cmp_ps_mask(mask, x, _mm512_setzero_ps(), _CMP_GE_OQ);
}

/* The sums of each side in 16 lanes, eight a vector. */
typedef struct sides {
    __m512d upper[2], lower[2];
    __m512i max;
    uint32_t count;
} sides;

/* Adds 0 where a value is of the other side. No sum is -0, so adding 0 changes none. */
TLC_AVX512_INLINE void add8(__m512d *upper, __m512d *lower, __m256 x)
{
    __m512d value = _mm512_cvtps_pd(x), zero = _mm512_setzero_pd();

    *upper = _mm512_add_pd(*upper, _mm512_max_pd(value, zero));
    *lower = _mm512_add_pd(*lower, _mm512_min_pd(value, zero));
}

TLC_AVX512_INLINE void add16(sides *s, __m512 x, __mmask16 mask)
{
    __m256d high = _mm512_extractf64x4_pd(_mm512_castps_pd(x), 1);

    add8(&s->upper[0], &s->lower[0], _mm512_castps512_ps256(x));
    add8(&s->upper[1], &s->lower[1], _mm256_castpd_ps(high));
    s->max = tlc_avx512_larger(s->max, x);
    s->count += (uint32_t)__builtin_popcount(upper_side(x, mask));
}

TLC_AVX512_INLINE double fold(const __m512d lane[2])
{
    __m512d eight = _mm512_add_pd(lane[0], lane[1]);
    __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

TLC_AVX512_INLINE uint32_t side_sums(tlc_addends has, const float *g, const float *r, size_t n, double sums[2],
                                     uint32_t *count)
{
    sides s = {.max = _mm512_setzero_si512()};
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        add16(&s, tlc_avx512_wanted(has, g, r, i, ALL_LANES), ALL_LANES);
    if (i < n)
        add16(&s, tlc_avx512_wanted(has, g, r, i, tlc_avx512_lanes(n - i)), tlc_avx512_lanes(n - i));
    sums[0] = fold(s.upper);
    sums[1] = fold(s.lower);
    *count = s.count;
    return _mm512_reduce_max_epu32(s.max);
}

TLC_AVX512 uint32_t tlc_side_sums_avx512(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    if (!r)
        return side_sums(TLC_HAS_G, g, NULL, n, sums, count);
    if (!g)
        return side_sums(TLC_HAS_R, NULL, r, n, sums, count);
    return side_sums(TLC_HAS_BOTH, g, r, n, sums, count);
}

typedef struct means {
    __m512 upper, lower;
} means;

TLC_AVX512_INLINE means means_of(const float mean[2])
{
    return (means){_mm512_set1_ps(mean[0]), _mm512_set1_ps(mean[1])};
}

TLC_AVX512_INLINE __mmask16 encode16(tlc_addends has, const float *g, float *r, size_t i, __mmask16 mask, means of)
{
    __m512 x = tlc_avx512_wanted(has, g, r, i, mask);
    __mmask16 side = upper_side(x, mask);

    if (has & TLC_HAS_R)
        _mm512_mask_storeu_ps(r + i, mask, _mm512_sub_ps(x, _mm512_mask_blend_ps(side, of.lower, of.upper)));
    return side;
}

TLC_AVX512_INLINE void encode(tlc_addends has, const float *g, float *r, size_t n, const float *mean, uint8_t *bits)
{
    const means of = has & TLC_HAS_R ? means_of(mean) : (means){_mm512_setzero_ps(), _mm512_setzero_ps()};
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        __mmask16 a = encode16(has, g, r, i, ALL_LANES, of), b = encode16(has, g, r, i + LANES, ALL_LANES, of);
        __mmask16 c = encode16(has, g, r, i + 2 * LANES, ALL_LANES, of);
        __mmask16 d = encode16(has, g, r, i + 3 * LANES, ALL_LANES, of);
        uint64_t four = tlc_avx512_join(a, b, c, d);
        memcpy(bits + i / 8, &four, sizeof four);
    }
    for (; i < n; i += LANES) {
        __mmask16 side = encode16(has, g, r, i, tlc_avx512_lanes(n - i), of);

        bits[i / 8] = (uint8_t)side;
        if (n - i > 8)
            bits[i / 8 + 1] = (uint8_t)(side >> 8);
    }
}

TLC_AVX512 void tlc_onebit_encode_avx512(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits)
{
    TLC_WITH_ADDENDS(encode, g, r, n, mean, bits);
}

/* The bits of 64 values, and of up to 16 values. */
TLC_AVX512_INLINE uint64_t bits64(const uint8_t *bits)
{
    uint64_t word;

    memcpy(&word, bits, sizeof word);
    return word;
}

TLC_AVX512_INLINE uint64_t bits16(const uint8_t *bits, size_t left)
{
    return left > 8 ? bits[0] | (uint64_t)bits[1] << 8 : bits[0];
}

TLC_AVX512_INLINE void decode16(uint64_t bits, __mmask16 mask, means of, float *out)
{
    tlc_avx512_prefetch(out);
    _mm512_mask_storeu_ps(out, mask, _mm512_mask_blend_ps((__mmask16)bits, of.lower, of.upper));
}

TLC_AVX512 void tlc_onebit_decode_avx512(const uint8_t *bits, size_t n, const float mean[2], float *out)
{
    means of = means_of(mean);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        uint64_t word = bits64(bits + i / 8);

        decode16(word, ALL_LANES, of, out + i);
        decode16(word >> 16, ALL_LANES, of, out + i + LANES);
        decode16(word >> 32, ALL_LANES, of, out + i + 2 * LANES);
        decode16(word >> 48, ALL_LANES, of, out + i + 3 * LANES);
    }
    for (; i < n; i += LANES)
        decode16(bits16(bits + i / 8, n - i), tlc_avx512_lanes(n - i), of, out + i);
}

TLC_AVX512_INLINE void sum16(uint64_t bits, __mmask16 mask, means of, float *sum)
{
    __m512 mean = _mm512_mask_blend_ps((__mmask16)bits, of.lower, of.upper);

    _mm512_mask_storeu_ps(sum, mask, tlc_avx512_one_nan(_mm512_add_ps(_mm512_maskz_loadu_ps(mask, sum), mean)));
}

TLC_AVX512 void tlc_onebit_add_avx512(const uint8_t *bits, size_t n, const float mean[2], float *sum)
{
    means of = means_of(mean);
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP) {
        uint64_t word = bits64(bits + i / 8);

        sum16(word, ALL_LANES, of, sum + i);
        sum16(word >> 16, ALL_LANES, of, sum + i + LANES);
        sum16(word >> 32, ALL_LANES, of, sum + i + 2 * LANES);
        sum16(word >> 48, ALL_LANES, of, sum + i + 3 * LANES);
    }
    for (; i < n; i += LANES)
        sum16(bits16(bits + i / 8, n - i), tlc_avx512_lanes(n - i), of, sum + i);
}
#endif
