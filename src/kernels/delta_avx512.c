/* SPDX-License-Identifier: MIT
 *
 * 64 weights become a word of each mask. Weights behind the last are masked out.
 */
#include "avx512.h"
#include "delta.h"

#if defined(__x86_64__)

enum { WORD = 64 };

/* The masks of a vector. */
typedef struct found {
    uint64_t changed, negative, large;
} found;

/* Lanes beyond the mask count as equal. */
TLC_AVX512_INLINE found compare(const uint8_t *base, const uint8_t *next, __mmask64 mask, unsigned width)
{
    __m512i a, b, d;

    if (width == 32) {
        a = _mm512_maskz_loadu_epi32((__mmask16)mask, base);
        b = _mm512_maskz_loadu_epi32((__mmask16)mask, next);
        a = _mm512_xor_si512(a, _mm512_srli_epi32(_mm512_srai_epi32(a, 31), 1));
        b = _mm512_xor_si512(b, _mm512_srli_epi32(_mm512_srai_epi32(b, 31), 1));
        d = _mm512_sub_epi32(b, a);
        return (found){_mm512_test_epi32_mask(d, d), _mm512_cmplt_epi32_mask(d, _mm512_setzero_si512()),
                       _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(d, _mm512_set1_epi32(-1)), _mm512_set1_epi32(2))};
    }
    a = _mm512_maskz_loadu_epi16((__mmask32)mask, base);
    b = _mm512_maskz_loadu_epi16((__mmask32)mask, next);
    a = _mm512_xor_si512(a, _mm512_srli_epi16(_mm512_srai_epi16(a, 15), 1));
    b = _mm512_xor_si512(b, _mm512_srli_epi16(_mm512_srai_epi16(b, 15), 1));
    d = _mm512_sub_epi16(b, a);
    return (found){_mm512_test_epi16_mask(d, d), _mm512_movepi16_mask(d),
                   _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(d, _mm512_set1_epi16(-1)), _mm512_set1_epi16(2))};
}

TLC_AVX512_INLINE uint64_t delta(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                                 uint64_t *negative, uint64_t *large, unsigned width)
{
    const unsigned lanes = 8 * BYTES / width;
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += WORD) {
        const __mmask64 mask = tlc_avx512_bytes(n - i);
        uint64_t any = 0, minus = 0, much = 0;

        TLC_UNROLL
        for (unsigned k = 0; k < WORD; k += lanes) {
            const size_t at = i * (width / 8) + k * (width / 8);
            const found f = compare(base + at, next + at, mask >> k, width);
            any |= f.changed << k;
            minus |= f.negative << k;
            much |= f.large << k;
        }
        changed[i / WORD] = any;
        negative[i / WORD] = minus;
        large[i / WORD] = much;
        count += (uint64_t)__builtin_popcountll(any);
    }
    return count;
}

TLC_AVX512 uint64_t tlc_delta16_avx512(const void *base, const void *next, size_t n, uint64_t *changed,
                                       uint64_t *negative, uint64_t *large)
{
    return delta(base, next, n, changed, negative, large, 16);
}

TLC_AVX512 uint64_t tlc_delta32_avx512(const void *base, const void *next, size_t n, uint64_t *changed,
                                       uint64_t *negative, uint64_t *large)
{
    return delta(base, next, n, changed, negative, large, 32);
}
#endif
