/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

enum { SUMS = 16 };

/* The sums of each side in 16 lanes, four a vector; the largest magnitudes; minus the number of x >= 0. */
typedef struct sides {
    __m256d upper[4], lower[4];
    __m256i max, count;
} sides;

/* Adds 0 where a value is of the other side. No sum is -0, so adding 0 changes none. */
TLC_AVX2_INLINE void add4(__m256d *upper, __m256d *lower, __m128 x)
{
    __m256d value = _mm256_cvtps_pd(x), zero = _mm256_setzero_pd();

    *upper = _mm256_add_pd(*upper, _mm256_max_pd(value, zero));
    *lower = _mm256_add_pd(*lower, _mm256_min_pd(value, zero));
}

TLC_AVX2_INLINE void add8(sides *s, size_t at, __m256 x)
{
    add4(&s->upper[at], &s->lower[at], _mm256_castps256_ps128(x));
    add4(&s->upper[at + 1], &s->lower[at + 1], _mm256_extractf128_ps(x, 1));
    s->max = tlc_avx2_larger(s->max, x);
    s->count = _mm256_add_epi32(s->count, _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GE_OQ)));
}

TLC_AVX2_INLINE double fold(const __m256d lane[4])
{
    __m256d four = _mm256_add_pd(_mm256_add_pd(lane[0], lane[2]), _mm256_add_pd(lane[1], lane[3]));
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));

    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

TLC_AVX2_INLINE uint32_t sum_lanes(__m256i count)
{
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(count), _mm256_extracti128_si256(count, 1));

    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(1, 0, 3, 2)));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, _MM_SHUFFLE(2, 3, 0, 1)));
    return (uint32_t)_mm_cvtsi128_si32(sum);
}

/* The last values are filled up with zeros, which count as x >= 0. */
TLC_AVX2_INLINE uint32_t side_sums(tlc_addends has, const float *g, const float *r, size_t n, double sums[2],
                                   uint32_t *count)
{
    sides s = {.max = _mm256_setzero_si256()};
    uint32_t added = 0;
    size_t i = 0;

    for (; i + SUMS <= n; i += SUMS) {
        add8(&s, 0, tlc_avx2_wanted(has, g, r, i));
        add8(&s, 2, tlc_avx2_wanted(has, g, r, i + 8));
    }
    if (i < n) {
        float last[2][SUMS] = {{0}};

        added = (uint32_t)(SUMS - (n - i));
        tlc_copy_few(last[0], has & TLC_HAS_G ? g + i : r + i, (n - i) * sizeof(float));
        if (has == TLC_HAS_BOTH)
            tlc_copy_few(last[1], r + i, (n - i) * sizeof(float));
        add8(&s, 0, tlc_avx2_wanted(has, last[0], has & TLC_HAS_G ? last[1] : last[0], 0));
        add8(&s, 2, tlc_avx2_wanted(has, last[0], has & TLC_HAS_G ? last[1] : last[0], 8));
    }
    sums[0] = fold(s.upper);
    sums[1] = fold(s.lower);
    *count = 0 - sum_lanes(s.count) - added;
    return tlc_avx2_largest(s.max);
}

TLC_AVX2 uint32_t tlc_side_sums_avx2(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    if (!r)
        return side_sums(TLC_HAS_G, g, NULL, n, sums, count);
    if (!g)
        return side_sums(TLC_HAS_R, NULL, r, n, sums, count);
    return side_sums(TLC_HAS_BOTH, g, r, n, sums, count);
}

/* The bits of eight values. Their residuals go to r. */
TLC_AVX2_INLINE uint32_t encode8(tlc_addends has, const float *g, float *r, size_t i, __m256 upper, __m256 lower)
{
    __m256 x = tlc_avx2_wanted(has, g, r, i), side = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_GE_OQ);

    if (has & TLC_HAS_R)
        _mm256_storeu_ps(r + i, _mm256_sub_ps(x, _mm256_blendv_ps(lower, upper, side)));
    return (uint32_t)_mm256_movemask_ps(side);
}

TLC_AVX2_INLINE void encode(tlc_addends has, const float *g, float *r, size_t n, const float *mean, uint8_t *bits)
{
    const __m256 upper = _mm256_set1_ps(has & TLC_HAS_R ? mean[0] : 0),
                 lower = _mm256_set1_ps(has & TLC_HAS_R ? mean[1] : 0);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        uint32_t a = encode8(has, g, r, i, upper, lower), b = encode8(has, g, r, i + 8, upper, lower);
        uint32_t c = encode8(has, g, r, i + 16, upper, lower), d = encode8(has, g, r, i + 24, upper, lower);
        uint32_t four = (a | b << 8) | (c << 16 | d << 24);
        memcpy(bits + i / 8, &four, sizeof four);
    }
    for (; i + 8 <= n; i += 8)
        bits[i / 8] = (uint8_t)encode8(has, g, r, i, upper, lower);
    if (i < n)
        tlc_onebit_encode_scalar(has & TLC_HAS_G ? g + i : NULL, has & TLC_HAS_R ? r + i : NULL, n - i, mean,
                                 bits + i / 8);
}

TLC_AVX2 void tlc_onebit_encode_avx2(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits)
{
    TLC_WITH_ADDENDS(encode, g, r, n, mean, bits);
}

/* For permutevar_ps, which takes the low two bits of an index. The upper of them is the bit of another value. */
TLC_AVX2_INLINE __m256 mean_table(const float mean[2])
{
    return _mm256_setr_ps(mean[1], mean[0], mean[1], mean[0], mean[1], mean[0], mean[1], mean[0]);
}

/* The means of eight values. Their bits start at bit `at` of each lane. */
TLC_AVX2_INLINE __m256 means8(__m256i bits, int at, __m256 table)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_permutevar_ps(table, _mm256_srlv_epi32(bits, _mm256_add_epi32(lane, _mm256_set1_epi32(at))));
}

TLC_AVX2_INLINE __m256i bits32(const uint8_t *bits)
{
    int32_t word;

    memcpy(&word, bits, sizeof word);
    return _mm256_set1_epi32(word);
}

TLC_AVX2 void tlc_onebit_decode_avx2(const uint8_t *bits, size_t n, const float mean[2], float *out)
{
    const __m256 table = mean_table(mean);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i word = bits32(bits + i / 8);

        tlc_avx2_prefetch(out + i, AHEAD_OF_ONE);
        _mm256_storeu_ps(out + i, means8(word, 0, table));
        _mm256_storeu_ps(out + i + 8, means8(word, 8, table));
        tlc_avx2_prefetch(out + i + 16, AHEAD_OF_ONE);
        _mm256_storeu_ps(out + i + 16, means8(word, 16, table));
        _mm256_storeu_ps(out + i + 24, means8(word, 24, table));
    }
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, means8(_mm256_set1_epi32(bits[i / 8]), 0, table));
    if (i < n)
        tlc_onebit_decode_scalar(bits + i / 8, n - i, mean, out + i);
}

TLC_AVX2_INLINE void sum8(float *sum, __m256 means)
{
    _mm256_storeu_ps(sum, tlc_avx2_one_nan(_mm256_add_ps(_mm256_loadu_ps(sum), means)));
}

TLC_AVX2 void tlc_onebit_add_avx2(const uint8_t *bits, size_t n, const float mean[2], float *sum)
{
    const __m256 table = mean_table(mean);
    size_t i = 0;

    for (; i + 32 <= n; i += 32) {
        __m256i word = bits32(bits + i / 8);

        sum8(sum + i, means8(word, 0, table));
        sum8(sum + i + 8, means8(word, 8, table));
        sum8(sum + i + 16, means8(word, 16, table));
        sum8(sum + i + 24, means8(word, 24, table));
    }
    for (; i + 8 <= n; i += 8)
        sum8(sum + i, means8(_mm256_set1_epi32(bits[i / 8]), 0, table));
    if (i < n)
        tlc_onebit_add_scalar(bits + i / 8, n - i, mean, sum + i);
}
#endif
