/* SPDX-License-Identifier: MIT */
#include "avx2.h"

#if defined(__x86_64__)

enum { WORD = 64 };

TLC_AVX2_INLINE uint64_t join(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

TLC_AVX2_INLINE uint64_t minus64(const int8_t *q)
{
    return join(tlc_avx2_signs(tlc_avx2_load(q)), tlc_avx2_signs(tlc_avx2_load(q + 32)));
}

TLC_AVX2_INLINE uint64_t nonzero64(const int8_t *q)
{
    const __m256i zero = _mm256_setzero_si256();
    return ~join(tlc_avx2_signs(_mm256_cmpeq_epi8(tlc_avx2_load(q), zero)),
                 tlc_avx2_signs(_mm256_cmpeq_epi8(tlc_avx2_load(q + 32), zero)));
}

/* The signs of 32 integers. */
TLC_AVX2_INLINE uint32_t signs_of(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return tlc_avx2_signs(tlc_avx2_pack32(a, b, c, d));
}

typedef struct threshold {
    __m256i flip, keep, least;
} threshold;

TLC_AVX2_INLINE __m256i below8(const float *x, threshold t)
{
    return _mm256_cmpgt_epi32(t.least, _mm256_and_si256(_mm256_xor_si256(tlc_avx2_load(x), t.flip), t.keep));
}

TLC_AVX2_INLINE uint32_t below32(const float *x, threshold t)
{
    return signs_of(below8(x, t), below8(x + 8, t), below8(x + 16, t), below8(x + 24, t));
}

TLC_AVX2_INLINE uint64_t reached64(const float *x, threshold t)
{
    return ~join(below32(x, t), below32(x + 32, t));
}

TLC_AVX2_INLINE threshold threshold_of(uint32_t flip, uint32_t keep, int32_t least)
{
    return (threshold){_mm256_set1_epi32((int)flip), _mm256_set1_epi32((int)keep), _mm256_set1_epi32(least)};
}

typedef __m256i limits;

TLC_AVX2_INLINE limits limits_of(uint32_t limit)
{
    return _mm256_set1_epi32((int)(limit < 1u << 24 ? limit : 1u << 24));
}

/* All ones where a value is drawn. A shifted word is below 2^24, so a signed comparison is right. */
TLC_AVX2_INLINE __m256i drawn8(const float *x, const uint32_t *words, limits limit)
{
    __m256i low = _mm256_cmpgt_epi32(limit, _mm256_srli_epi32(tlc_avx2_load(words), 8));
    __m256 other = _mm256_cmp_ps(_mm256_loadu_ps(x), _mm256_setzero_ps(), _CMP_NEQ_UQ);

    return _mm256_and_si256(low, _mm256_castps_si256(other));
}

TLC_AVX2_INLINE uint32_t drawn32(const float *x, const uint32_t *words, limits limit)
{
    return signs_of(drawn8(x, words, limit), drawn8(x + 8, words + 8, limit), drawn8(x + 16, words + 16, limit),
                    drawn8(x + 24, words + 24, limit));
}

TLC_AVX2_INLINE uint64_t drawn64(const float *x, const uint32_t *words, limits limit)
{
    return join(drawn32(x, words, limit), drawn32(x + 32, words + 32, limit));
}

__attribute__((target("popcnt"))) uint64_t tlc_count_ones_avx2(const uint8_t *bits, size_t len)
{
    uint64_t count = 0, word;
    size_t i = 0;

    for (; len - i >= sizeof word; i += sizeof word) {
        memcpy(&word, bits + i, sizeof word);
        count += (uint64_t)__builtin_popcountll(word);
    }
    return count + tlc_count_ones_scalar(bits + i, len - i);
}

/* For each mask of 8 lanes: a byte for each lane, with the index of the value that it gets, or 128 for none. */
#define COUNT(m)                                                                                                       \
    (((m) & 1) + ((m) >> 1 & 1) + ((m) >> 2 & 1) + ((m) >> 3 & 1) + ((m) >> 4 & 1) + ((m) >> 5 & 1) + ((m) >> 6 & 1))
#define LANE(m, i) ((uint64_t)((m) >> (i) & 1 ? COUNT((m) & ((1 << (i)) - 1)) : 128) << 8 * (i))
#define SOURCES(m)                                                                                                     \
    (LANE(m, 0) | LANE(m, 1) | LANE(m, 2) | LANE(m, 3) | LANE(m, 4) | LANE(m, 5) | LANE(m, 6) | LANE(m, 7))
#define SOURCES4(m) SOURCES(m), SOURCES((m) + 1), SOURCES((m) + 2), SOURCES((m) + 3)
#define SOURCES16(m) SOURCES4(m), SOURCES4((m) + 4), SOURCES4((m) + 8), SOURCES4((m) + 12)
#define SOURCES64(m) SOURCES16(m), SOURCES16((m) + 16), SOURCES16((m) + 32), SOURCES16((m) + 48)
static const uint64_t sources[256] = {SOURCES64(0), SOURCES64(64), SOURCES64(128), SOURCES64(192)};

/* The values of eight lanes, where source is not negative. */
TLC_AVX2_INLINE __m256i expand8(__m256i source, const uint8_t *values)
{
    return _mm256_permutevar8x32_epi32(tlc_avx2_load(values), source);
}

TLC_AVX2_INLINE void store8(__m256i source, const uint8_t *values, float *out)
{
    __m256i some = _mm256_andnot_si256(_mm256_srai_epi32(source, 31), expand8(source, values));
    tlc_avx2_store(out, some);
}

TLC_AVX2_INLINE void add8(__m256i source, const uint8_t *values, __m256 weight, float *sum)
{
    __m256 old = _mm256_loadu_ps(sum);
    __m256 x = tlc_avx2_weighted(old, _mm256_castsi256_ps(expand8(source, values)), weight);

    _mm256_storeu_ps(sum, _mm256_blendv_ps(x, old, _mm256_castsi256_ps(source)));
}

/* Inlined once with add, which uses weight, and once without. */
TLC_AVX2_INLINE size_t expand_word(uint64_t mask, const uint8_t *values, int add, float weight, float *out)
{
    const __m256 w = _mm256_set1_ps(weight);
    size_t at = 0;

    for (unsigned lane = 0; lane < WORD; lane += 8) {
        unsigned bits = mask >> lane & 0xff;
        __m256i source = _mm256_cvtepi8_epi32(tlc_avx2_load8(&sources[bits]));

        if (add)
            add8(source, values + 4 * at, w, out + lane);
        else
            store8(source, values + 4 * at, out + lane);
        at += (size_t)__builtin_popcount(bits);
    }
    return at;
}

#define TARGET TLC_AVX2
#define INLINE TLC_AVX2_INLINE
#define NAME(kernel) tlc_##kernel##_avx2
#include "masks_template.h"

/* In pieces, so that the mask is small. */
size_t tlc_threshold_values_avx2(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least, float *out)
{
    uint64_t mask[8];
    size_t count = 0;

    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < WORD * 8 ? n - i : WORD * 8;
        if (tlc_threshold_mask_avx2(x + i, some, flip, keep, least, mask))
            count += tlc_compact_scalar(x + i, mask, some, out + count);
    }
    return count;
}
#endif
