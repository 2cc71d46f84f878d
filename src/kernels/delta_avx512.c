/* SPDX-License-Identifier: MIT
 *
 * 64 weights become a word of each mask. Lanes past the last weight are masked out.
 */
#include "avx512.h"
#include "delta.h"

#if defined(__x86_64__)

enum { WORD = 64 };

TLC_AVX512_INLINE __m512i ordered(__m512i x, tlc_weight_unit unit)
{
    switch (unit) {
    case TLC_UNIT_F32: return _mm512_xor_si512(x, _mm512_srli_epi32(_mm512_srai_epi32(x, 31), 1));
    case TLC_UNIT_F16: return _mm512_xor_si512(x, _mm512_srli_epi16(_mm512_srai_epi16(x, 15), 1));
    case TLC_UNIT_F8:
        return _mm512_xor_si512(x, _mm512_maskz_mov_epi8(_mm512_movepi8_mask(x), _mm512_set1_epi8(INT8_MAX)));
    default: return x;
    }
}

/* The masks of a vector. */
typedef struct found {
    uint64_t changed, negative, large;
} found;

/* 64 units of 4 bits from 32 bytes, each in the upper half of a byte. Floats are ordered. */
TLC_AVX512_INLINE __m512i load_nibbles(const uint8_t *p, __mmask64 mask, tlc_weight_unit unit)
{
    const __m512i x = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8((__mmask32)mask, p));

    const __m512i all = _mm512_and_si512(_mm512_or_si512(_mm512_slli_epi16(x, 4), _mm512_slli_epi16(x, 8)),
                                         _mm512_set1_epi8((char)0xf0));
    return unit == TLC_UNIT_U4
               ? all
               : _mm512_xor_si512(all, _mm512_maskz_mov_epi8(_mm512_movepi8_mask(all), _mm512_set1_epi8(0x70)));
}

/* Lanes beyond the mask count as equal. Of units of 4 bits the mask has one bit for two. */
TLC_AVX512_INLINE found compare(const uint8_t *base, const uint8_t *next, __mmask64 mask, tlc_weight_unit unit)
{
    __m512i a, b, d;

    switch (tlc_unit_width(unit)) {
    case 32:
        a = _mm512_maskz_loadu_epi32((__mmask16)mask, base);
        b = _mm512_maskz_loadu_epi32((__mmask16)mask, next);
        d = _mm512_sub_epi32(ordered(b, unit), ordered(a, unit));
        return (found){_mm512_test_epi32_mask(d, d), _mm512_cmplt_epi32_mask(d, _mm512_setzero_si512()),
                       _mm512_cmpgt_epu32_mask(_mm512_sub_epi32(d, _mm512_set1_epi32(-1)), _mm512_set1_epi32(2))};
    case 16:
        a = _mm512_maskz_loadu_epi16((__mmask32)mask, base);
        b = _mm512_maskz_loadu_epi16((__mmask32)mask, next);
        d = _mm512_sub_epi16(ordered(b, unit), ordered(a, unit));
        return (found){_mm512_test_epi16_mask(d, d), _mm512_movepi16_mask(d),
                       _mm512_cmpgt_epu16_mask(_mm512_sub_epi16(d, _mm512_set1_epi16(-1)), _mm512_set1_epi16(2))};
    case 8:
        a = _mm512_maskz_loadu_epi8(mask, base);
        b = _mm512_maskz_loadu_epi8(mask, next);
        d = _mm512_sub_epi8(ordered(b, unit), ordered(a, unit));
        return (found){_mm512_test_epi8_mask(d, d), _mm512_movepi8_mask(d),
                       _mm512_cmpgt_epu8_mask(_mm512_sub_epi8(d, _mm512_set1_epi8(-1)), _mm512_set1_epi8(2))};
    default:
        d = _mm512_sub_epi8(load_nibbles(next, mask, unit), load_nibbles(base, mask, unit));
        return (found){_mm512_test_epi8_mask(d, d), _mm512_movepi8_mask(d),
                       _mm512_cmpgt_epu8_mask(_mm512_sub_epi8(d, _mm512_set1_epi8(-16)), _mm512_set1_epi8(32))};
    }
}

TLC_AVX512_INLINE uint64_t delta(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                                 uint64_t *negative, uint64_t *large, tlc_weight_unit unit)
{
    const unsigned lanes = tlc_unit_width(unit) == 4 ? WORD : 8 * BYTES / tlc_unit_width(unit);
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += WORD) {
        const __mmask64 mask = tlc_avx512_bytes(tlc_unit_width(unit) == 4 ? (n - i) / 2 : n - i);
        uint64_t any = 0, minus = 0, much = 0;

        TLC_UNROLL
        for (unsigned k = 0; k < WORD; k += lanes) {
            const size_t at = tlc_unit_bytes(unit, i + k);
            const found f = compare(base + at, next + at, mask >> k, unit);
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

TLC_DELTA_COMPARES(avx512, TLC_AVX512, delta)

/* Lanes of changed become x + 1, or x - 1 where they are negative. */
TLC_AVX512_INLINE __m512i moved(__m512i x, uint64_t changed, uint64_t negative, tlc_weight_unit unit)
{
    const __m512i minus = _mm512_set1_epi32(-1);

    x = ordered(x, unit);
    if (unit == TLC_UNIT_F32) {
        const __m512i one = _mm512_mask_mov_epi32(_mm512_set1_epi32(1), (__mmask16)negative, minus);
        return ordered(_mm512_mask_add_epi32(x, (__mmask16)changed, x, one), unit);
    }
    const __m512i one = _mm512_mask_mov_epi16(_mm512_set1_epi16(1), (__mmask32)negative, minus);
    return ordered(_mm512_mask_add_epi16(x, (__mmask32)changed, x, one), unit);
}

TLC_AVX512_INLINE void move(uint8_t *weights, size_t n, const uint64_t *changed, const uint64_t *negative,
                            tlc_weight_unit unit)
{
    const unsigned width = tlc_unit_width(unit), lanes = 8 * BYTES / width;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        const uint64_t any = changed[i / WORD], minus = negative[i / WORD];
        uint8_t *at = weights + i * (width / 8);

        TLC_UNROLL
        for (unsigned k = 0; k < WORD; k += lanes, at += BYTES) {
            const __m512i x = moved(_mm512_loadu_si512(at), any >> k, minus >> k, unit);
            if (width == 32)
                _mm512_mask_storeu_epi32(at, (__mmask16)(any >> k), x);
            else
                _mm512_mask_storeu_epi16(at, (__mmask32)(any >> k), x);
        }
    }
    if (i < n)
        tlc_delta_move_word(weights, i, changed[i / WORD], negative[i / WORD], unit);
}

/* The sum of the lanes up to each, within each four. */
TLC_AVX512_INLINE __m512i sums_of_four(__m512i x)
{
    x = _mm512_add_epi32(x, _mm512_bslli_epi128(x, 4));
    return _mm512_add_epi32(x, _mm512_bslli_epi128(x, 8));
}

/* 16 weights in lanes of 16 bits, as integers that order like the floats, or back. */
TLC_AVX512_INLINE __m256i ordered16(__m256i x)
{
    return _mm256_xor_si256(x, _mm256_srli_epi16(_mm256_srai_epi16(x, 15), 1));
}

/* Each quarter of a vector has the bits of 4 weights, at most 64, which are read from 16 bytes. */
TLC_AVX512 uint64_t tlc_delta_extras16_avx512(const uint8_t *bytes, size_t size, uint64_t bit, const uint8_t *class,
                                              size_t n, void *weights_)
{
    const __m512i from = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)); /* the lowest byte of each lane */
    const __m512i down = _mm512_set1_epi32(0x00010203); /* the bytes of a number, the first on top */
    const __m512i quarter = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    const __m512i one = _mm512_set1_epi32(1), seven = _mm512_set1_epi32(7);
    uint8_t *weights = weights_;
    size_t i = 0;

    for (; n - i >= LANES && size >= BYTES && bit / 8 <= size - BYTES; i += LANES) {
        const __m512i length = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(class + i)));
        const __m512i sums = sums_of_four(length);
        const __m128i four = _mm512_castsi512_si128(_mm512_maskz_compress_epi32(0x8888, sums));
        __m128i ends = _mm_add_epi32(four, _mm_bslli_si128(four, 4)); /* of the quarters */
        ends = _mm_add_epi32(ends, _mm_bslli_si128(ends, 8));
        const uint64_t second = bit + (uint32_t)_mm_extract_epi32(ends, 0);
        const uint64_t third = bit + (uint32_t)_mm_extract_epi32(ends, 1);
        const uint64_t fourth = bit + (uint32_t)_mm_extract_epi32(ends, 2);
        const __m128i starts = _mm_add_epi32(_mm_sub_epi32(ends, four), _mm_set1_epi32((int)(bit & 7)));
        __m512i at = _mm512_permutexvar_epi32(quarter, _mm512_castsi128_si512(starts));
        __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(bytes + bit / 8)));

        at = _mm512_add_epi32(_mm512_sub_epi32(sums, length), _mm512_and_si512(at, seven));
        x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(bytes + second / 8)), 1);
        x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(bytes + third / 8)), 2);
        x = _mm512_inserti32x4(x, _mm_loadu_si128((const __m128i *)(bytes + fourth / 8)), 3);
        x = _mm512_shuffle_epi8(x, _mm512_add_epi8(_mm512_shuffle_epi8(_mm512_srli_epi32(at, 3), from), down));
        x = _mm512_sllv_epi32(x, _mm512_and_si512(at, seven));
        x = _mm512_srlv_epi32(x, _mm512_sub_epi32(_mm512_set1_epi32(32), length));
        const __m512i leading = _mm512_srli_epi32(_mm512_sllv_epi32(one, length), 1);
        const __mmask16 negative = _mm512_test_epi32_mask(x, leading);
        const __m512i magnitude = _mm512_or_si512(x, leading);
        const __m512i d = _mm512_mask_sub_epi32(magnitude, negative, _mm512_setzero_si512(), magnitude);
        const __m256i base = ordered16(_mm256_loadu_si256((const __m256i *)(weights + 2 * i)));

        _mm256_storeu_si256((__m256i *)(weights + 2 * i), ordered16(_mm256_add_epi16(base, _mm512_cvtepi32_epi16(d))));
        bit += (uint32_t)_mm_extract_epi32(ends, 3);
    }
    return tlc_delta_extras16_scalar(bytes, size, bit, class + i, n - i, weights + 2 * i);
}

TLC_AVX512 void tlc_delta_move16_avx512(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, TLC_UNIT_F16);
}

TLC_AVX512 void tlc_delta_move32_avx512(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, TLC_UNIT_F32);
}
#endif
