/* SPDX-License-Identifier: MIT
 *
 * 64 weights become a word of each mask. Weights behind the last are masked out.
 */
#include "avx512.h"
#include "delta.h"

#if defined(__x86_64__)

enum { WORD = 64 };

TLC_AVX512_INLINE __m512i ordered(__m512i x, unsigned width)
{
    return width == 32 ? _mm512_xor_si512(x, _mm512_srli_epi32(_mm512_srai_epi32(x, 31), 1))
                       : _mm512_xor_si512(x, _mm512_srli_epi16(_mm512_srai_epi16(x, 15), 1));
}

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
        d = _mm512_sub_epi32(ordered(b, 32), ordered(a, 32));
        return (found){_mm512_test_epi32_mask(d, d), _mm512_cmplt_epi32_mask(d, _mm512_setzero_si512()),
                       _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(d, _mm512_set1_epi32(-1)), _mm512_set1_epi32(2))};
    }
    a = _mm512_maskz_loadu_epi16((__mmask32)mask, base);
    b = _mm512_maskz_loadu_epi16((__mmask32)mask, next);
    d = _mm512_sub_epi16(ordered(b, 16), ordered(a, 16));
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

/* Lanes of changed become x + 1, or x - 1 where they are negative. */
TLC_AVX512_INLINE __m512i moved(__m512i x, uint64_t changed, uint64_t negative, unsigned width)
{
    const __m512i minus = _mm512_set1_epi32(-1);

    x = ordered(x, width);
    if (width == 32) {
        const __m512i step = _mm512_mask_mov_epi32(_mm512_set1_epi32(1), (__mmask16)negative, minus);
        return ordered(_mm512_mask_add_epi32(x, (__mmask16)changed, x, step), 32);
    }
    const __m512i step = _mm512_mask_mov_epi16(_mm512_set1_epi16(1), (__mmask32)negative, minus);
    return ordered(_mm512_mask_add_epi16(x, (__mmask32)changed, x, step), 16);
}

TLC_AVX512_INLINE void move(uint8_t *weights, size_t n, const uint64_t *changed, const uint64_t *negative,
                            unsigned width)
{
    const unsigned lanes = 8 * BYTES / width;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        const uint64_t any = changed[i / WORD], minus = negative[i / WORD];
        uint8_t *at = weights + i * (width / 8);

        TLC_UNROLL
        for (unsigned k = 0; k < WORD; k += lanes, at += BYTES) {
            const __m512i x = moved(_mm512_loadu_si512(at), any >> k, minus >> k, width);
            if (width == 32)
                _mm512_mask_storeu_epi32(at, (__mmask16)(any >> k), x);
            else
                _mm512_mask_storeu_epi16(at, (__mmask32)(any >> k), x);
        }
    }
    if (i < n)
        tlc_delta_move_word(weights, i, changed[i / WORD], negative[i / WORD], width);
}

TLC_AVX512 void tlc_delta_move16_avx512(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, 16);
}

TLC_AVX512 void tlc_delta_move32_avx512(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, 32);
}
#endif
