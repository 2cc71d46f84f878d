/* SPDX-License-Identifier: MIT
 *
 * 64 weights become a word of each mask. The weights behind the last whole word are compared one by one.
 */
#include "avx2.h"
#include "delta.h"

#if defined(__x86_64__)

enum { WORD = 64 };

/* All ones in each lane whose weight differs, decreases, or differs by more than 1. */
typedef struct found {
    __m256i same, negative, small;
} found;

TLC_AVX2_INLINE __m256i ordered(__m256i x, unsigned width)
{
    return width == 32 ? _mm256_xor_si256(x, _mm256_srli_epi32(_mm256_srai_epi32(x, 31), 1))
                       : _mm256_xor_si256(x, _mm256_srli_epi16(_mm256_srai_epi16(x, 15), 1));
}

TLC_AVX2_INLINE found compare(const uint8_t *base, const uint8_t *next, unsigned width)
{
    const __m256i a = ordered(tlc_avx2_load(base), width), b = ordered(tlc_avx2_load(next), width);
    const __m256i zero = _mm256_setzero_si256();
    __m256i d, more;

    if (width == 32) {
        d = _mm256_sub_epi32(b, a);
        more = _mm256_sub_epi32(d, _mm256_set1_epi32(-1)); /* 0, 1 or 2 if |d| <= 1 */
        return (found){_mm256_cmpeq_epi32(d, zero), _mm256_cmpgt_epi32(zero, d),
                       _mm256_cmpeq_epi32(_mm256_min_epu32(more, _mm256_set1_epi32(2)), more)};
    }
    d = _mm256_sub_epi16(b, a);
    more = _mm256_sub_epi16(d, _mm256_set1_epi16(-1));
    return (found){_mm256_cmpeq_epi16(d, zero), _mm256_cmpgt_epi16(zero, d),
                   _mm256_cmpeq_epi16(_mm256_min_epu16(more, _mm256_set1_epi16(2)), more)};
}

/* Lanes of two vectors of 16-bit integers, or of four of 32 bits, as 32 bits. */
TLC_AVX2_INLINE uint32_t bits16(__m256i a, __m256i b)
{
    return tlc_avx2_signs(_mm256_permute4x64_epi64(_mm256_packs_epi16(a, b), 0xd8));
}

TLC_AVX2_INLINE uint32_t bits32(__m256i a, __m256i b, __m256i c, __m256i d)
{
    return tlc_avx2_signs(tlc_avx2_pack32(a, b, c, d));
}

/* 32 bits of each mask. */
typedef struct half {
    uint32_t same, negative, small;
} half;

TLC_AVX2_INLINE half compare32(const uint8_t *base, const uint8_t *next, unsigned width)
{
    const found f = compare(base, next, width), g = compare(base + BYTES, next + BYTES, width);

    if (width == 16)
        return (half){bits16(f.same, g.same), bits16(f.negative, g.negative), bits16(f.small, g.small)};
    const found h = compare(base + 2 * BYTES, next + 2 * BYTES, 32),
                i = compare(base + 3 * BYTES, next + 3 * BYTES, 32);
    return (half){bits32(f.same, g.same, h.same, i.same), bits32(f.negative, g.negative, h.negative, i.negative),
                  bits32(f.small, g.small, h.small, i.small)};
}

TLC_AVX2_INLINE uint64_t delta(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                               uint64_t *negative, uint64_t *large, unsigned width)
{
    const size_t bytes = width / 8;
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        const half low = compare32(base + i * bytes, next + i * bytes, width);
        const half high = compare32(base + (i + 32) * bytes, next + (i + 32) * bytes, width);
        const uint64_t any = ~(low.same | (uint64_t)high.same << 32);

        changed[i / WORD] = any;
        negative[i / WORD] = low.negative | (uint64_t)high.negative << 32;
        large[i / WORD] = ~(low.small | (uint64_t)high.small << 32);
        count += (uint64_t)__builtin_popcountll(any);
    }
    return i < n ? count + tlc_delta_word(base, next, i, n - i, changed, negative, large, width) : count;
}

TLC_AVX2 uint64_t tlc_delta16_avx2(const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                                   uint64_t *large)
{
    return delta(base, next, n, changed, negative, large, 16);
}

TLC_AVX2 uint64_t tlc_delta32_avx2(const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                                   uint64_t *large)
{
    return delta(base, next, n, changed, negative, large, 32);
}
#endif
