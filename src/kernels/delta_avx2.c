/* SPDX-License-Identifier: MIT
 *
 * 64 weights become a word of each mask. The weights after the last whole word are compared one by one.
 */
#include "avx2.h"
#include "delta.h"

#if defined(__x86_64__)

enum { WORD = 64 };

/* All ones in each lane whose weight differs, decreases, or differs by more than 1. */
typedef struct found {
    __m256i same, negative, small;
} found;

TLC_AVX2_INLINE __m256i ordered(__m256i x, tlc_weight_unit unit)
{
    switch (unit) {
    case TLC_UNIT_F32: return _mm256_xor_si256(x, _mm256_srli_epi32(_mm256_srai_epi32(x, 31), 1));
    case TLC_UNIT_F16: return _mm256_xor_si256(x, _mm256_srli_epi16(_mm256_srai_epi16(x, 15), 1));
    case TLC_UNIT_F8:
        return _mm256_xor_si256(x, _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), x),
                                                    _mm256_set1_epi8(INT8_MAX)));
    default: return x;
    }
}

/* 32 units of 4 bits from 16 bytes, each in the upper half of a byte. Floats are ordered. */
TLC_AVX2_INLINE __m256i load_nibbles(const uint8_t *p, tlc_weight_unit unit)
{
    const __m128i x = tlc_avx2_load16(p), upper = _mm_set1_epi8((char)0xf0);
    const __m128i first = _mm_and_si128(_mm_slli_epi16(x, 4), upper), second = _mm_and_si128(x, upper);

    const __m256i all = _mm256_set_m128i(_mm_unpackhi_epi8(first, second), _mm_unpacklo_epi8(first, second));
    return unit == TLC_UNIT_U4 ? all
                               : _mm256_xor_si256(all, _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), all),
                                                                        _mm256_set1_epi8(0x70)));
}

TLC_AVX2_INLINE __m256i load(const uint8_t *p, tlc_weight_unit unit)
{
    return tlc_unit_width(unit) == 4 ? load_nibbles(p, unit) : ordered(tlc_avx2_load(p), unit);
}

TLC_AVX2_INLINE found compare(const uint8_t *base, const uint8_t *next, tlc_weight_unit unit)
{
    const __m256i a = load(base, unit), b = load(next, unit), zero = _mm256_setzero_si256();
    const char one = tlc_unit_width(unit) == 4 ? 16 : 1; /* a difference of 1 */
    __m256i d, more;

    switch (tlc_unit_width(unit)) {
    case 32:
        d = _mm256_sub_epi32(b, a);
        more = _mm256_sub_epi32(d, _mm256_set1_epi32(-1)); /* 0, 1 or 2 if |d| <= 1 */
        return (found){_mm256_cmpeq_epi32(d, zero), _mm256_cmpgt_epi32(zero, d),
                       _mm256_cmpeq_epi32(_mm256_min_epu32(more, _mm256_set1_epi32(2)), more)};
    case 16:
        d = _mm256_sub_epi16(b, a);
        more = _mm256_sub_epi16(d, _mm256_set1_epi16(-1));
        return (found){_mm256_cmpeq_epi16(d, zero), _mm256_cmpgt_epi16(zero, d),
                       _mm256_cmpeq_epi16(_mm256_min_epu16(more, _mm256_set1_epi16(2)), more)};
    default:
        d = _mm256_sub_epi8(b, a);
        more = _mm256_add_epi8(d, _mm256_set1_epi8(one));
        return (found){_mm256_cmpeq_epi8(d, zero), _mm256_cmpgt_epi8(zero, d),
                       _mm256_cmpeq_epi8(_mm256_min_epu8(more, _mm256_set1_epi8((char)(2 * one))), more)};
    }
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

TLC_AVX2_INLINE half compare32(const uint8_t *base, const uint8_t *next, tlc_weight_unit unit)
{
    const found f = compare(base, next, unit);

    if (tlc_unit_width(unit) <= 8)
        return (half){tlc_avx2_signs(f.same), tlc_avx2_signs(f.negative), tlc_avx2_signs(f.small)};
    const found g = compare(base + BYTES, next + BYTES, unit);
    if (tlc_unit_width(unit) == 16)
        return (half){bits16(f.same, g.same), bits16(f.negative, g.negative), bits16(f.small, g.small)};
    const found h = compare(base + 2 * BYTES, next + 2 * BYTES, unit),
                i = compare(base + 3 * BYTES, next + 3 * BYTES, unit);
    return (half){bits32(f.same, g.same, h.same, i.same), bits32(f.negative, g.negative, h.negative, i.negative),
                  bits32(f.small, g.small, h.small, i.small)};
}

TLC_AVX2_INLINE uint64_t delta(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                               uint64_t *negative, uint64_t *large, tlc_weight_unit unit)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        const size_t at = tlc_unit_bytes(unit, i), middle = tlc_unit_bytes(unit, i + 32);
        const half low = compare32(base + at, next + at, unit);
        const half high = compare32(base + middle, next + middle, unit);
        const uint64_t any = ~(low.same | (uint64_t)high.same << 32);

        changed[i / WORD] = any;
        negative[i / WORD] = low.negative | (uint64_t)high.negative << 32;
        large[i / WORD] = ~(low.small | (uint64_t)high.small << 32);
        count += (uint64_t)__builtin_popcountll(any);
    }
    return i < n ? count + tlc_delta_word(base, next, i, n - i, changed, negative, large, unit) : count;
}

TLC_DELTA_COMPARES(avx2, TLC_AVX2, delta)

/* All ones in each lane whose bit is 1; the lanes of a vector have the lowest bits. */
TLC_AVX2_INLINE __m256i lanes_of(uint64_t bits, unsigned width)
{
    __m256i own;

    if (width == 32) {
        own = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)(bits & 255)), own), own);
    }
    own = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, INT16_MIN);
    return _mm256_cmpeq_epi16(_mm256_and_si256(_mm256_set1_epi16((short)(uint16_t)bits), own), own);
}

/* Lanes of changed become x + 1, or x - 1 where they are negative, too: lanes of all ones are -1. */
TLC_AVX2_INLINE __m256i moved(__m256i x, uint64_t changed, uint64_t negative, tlc_weight_unit unit)
{
    const unsigned width = tlc_unit_width(unit);
    const __m256i up = lanes_of(changed & ~negative, width), down = lanes_of(changed & negative, width);

    x = ordered(x, unit);
    return ordered(width == 32 ? _mm256_add_epi32(_mm256_sub_epi32(x, up), down)
                               : _mm256_add_epi16(_mm256_sub_epi16(x, up), down),
                   unit);
}

TLC_AVX2_INLINE void move(uint8_t *weights, size_t n, const uint64_t *changed, const uint64_t *negative,
                          tlc_weight_unit unit)
{
    const unsigned width = tlc_unit_width(unit), lanes = 8 * BYTES / width;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        const uint64_t any = changed[i / WORD], minus = negative[i / WORD];
        uint8_t *at = weights + i * (width / 8);

        if (!any)
            continue;
        TLC_UNROLL
        for (unsigned k = 0; k < WORD; k += lanes, at += BYTES)
            tlc_avx2_store(at, moved(tlc_avx2_load(at), any >> k, minus >> k, unit));
    }
    if (i < n)
        tlc_delta_move_word(weights, i, changed[i / WORD], negative[i / WORD], unit);
}

TLC_AVX2 void tlc_delta_move16_avx2(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, TLC_UNIT_F16);
}

TLC_AVX2 void tlc_delta_move32_avx2(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, TLC_UNIT_F32);
}

/* ---- classes and extra bits, 8 weights of 16 bits at a time, in lanes of 32 bits --------------------------------- */

enum { EIGHT = 8 };

/* The 8 weights from w on as ordered integers. */
TLC_AVX2_INLINE __m256i ordered_eight(const uint8_t *w)
{
    const __m256i x = _mm256_cvtepi16_epi32(tlc_avx2_load16(w));

    return _mm256_xor_si256(x, _mm256_srli_epi32(_mm256_srai_epi32(x, 31), 17));
}

/* Modulo 2^16, as signed integers. */
TLC_AVX2_INLINE __m256i wrapped(__m256i x)
{
    return _mm256_srai_epi32(_mm256_slli_epi32(x, 16), 16);
}

/* The leading one of numbers with this many bits; 0 for 0. */
TLC_AVX2_INLINE __m256i leading_ones(__m256i class)
{
    return _mm256_srli_epi32(_mm256_sllv_epi32(_mm256_set1_epi32(1), class), 1);
}

TLC_AVX2 void tlc_delta_classes16_avx2(const void *base_, const void *next_, size_t n, uint8_t *class, uint32_t *bits)
{
    const uint8_t *base = base_, *next = next_;
    size_t i = 0;

    for (; n - i >= EIGHT; i += EIGHT) {
        const __m256i d = wrapped(_mm256_sub_epi32(ordered_eight(next + 2 * i), ordered_eight(base + 2 * i)));
        const __m256i magnitude = _mm256_abs_epi32(d);
        /* magnitudes are exact as floats, whose exponents tell how many bits they have; that of 0 is below all */
        const __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(_mm256_cvtepi32_ps(magnitude)), 23);
        const __m256i length = _mm256_max_epi32(_mm256_sub_epi32(exponent, _mm256_set1_epi32(126)),
                                                _mm256_setzero_si256());
        const __m256i shorter = _mm256_andnot_si256(_mm256_srai_epi32(d, 31), leading_ones(length));
        const __m128i halves = _mm_packs_epi32(_mm256_castsi256_si128(length), _mm256_extracti128_si256(length, 1));

        tlc_avx2_store8(class + i, _mm_packus_epi16(halves, halves));
        tlc_avx2_store(bits + i, _mm256_xor_si256(magnitude, shorter));
    }
    tlc_delta_classes16_scalar(base + 2 * i, next + 2 * i, n - i, class + i, bits + i);
}

/* Each half of a vector has the bits of 4 weights, at most 64, which are read from 16 bytes. */
TLC_AVX2 uint64_t tlc_delta_extras16_avx2(const uint8_t *bytes, size_t size, uint64_t bit, const uint8_t *class,
                                          size_t n, void *weights_)
{
    const __m256i each = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    const __m256i down = _mm256_set1_epi32(0x00010203); /* the bytes of a number, the first one on top */
    uint8_t *weights = weights_;
    size_t i = 0;

    for (; n - i >= EIGHT && size >= 32 && bit / 8 <= size - 32; i += EIGHT) {
        const __m256i length = _mm256_cvtepu8_epi32(tlc_avx2_load8(class + i));
        __m256i at = _mm256_add_epi32(length, _mm256_slli_si256(length, 4)), x;
        at = _mm256_add_epi32(at, _mm256_slli_si256(at, 8)); /* sums up to each lane, within each half */
        const uint64_t middle = bit + (uint32_t)_mm256_extract_epi32(at, 3);
        const uint64_t end = middle + (uint32_t)_mm256_extract_epi32(at, 7);

        at = _mm256_add_epi32(_mm256_sub_epi32(at, length),
                              _mm256_set_m128i(_mm_set1_epi32((int)(middle & 7)), _mm_set1_epi32((int)(bit & 7))));
        x = _mm256_set_m128i(tlc_avx2_load16(bytes + middle / 8), tlc_avx2_load16(bytes + bit / 8));
        x = _mm256_shuffle_epi8(x, _mm256_add_epi8(_mm256_shuffle_epi8(_mm256_srli_epi32(at, 3), each), down));
        x = _mm256_sllv_epi32(x, _mm256_and_si256(at, _mm256_set1_epi32(7)));
        x = _mm256_srlv_epi32(x, _mm256_sub_epi32(_mm256_set1_epi32(32), length));
        const __m256i leading = leading_ones(length);
        const __m256i up = _mm256_cmpeq_epi32(_mm256_and_si256(x, leading), _mm256_setzero_si256());
        const __m256i magnitude = _mm256_or_si256(x, leading);
        const __m256i d = _mm256_blendv_epi8(_mm256_sub_epi32(_mm256_setzero_si256(), magnitude), magnitude, up);
        const __m256i moved = wrapped(_mm256_add_epi32(ordered_eight(weights + 2 * i), d));
        const __m256i next = _mm256_xor_si256(moved, _mm256_srli_epi32(_mm256_srai_epi32(moved, 31), 17));

        tlc_avx2_store16(weights + 2 * i,
                         _mm_packs_epi32(_mm256_castsi256_si128(next), _mm256_extracti128_si256(next, 1)));
        bit = end;
    }
    return tlc_delta_extras16_scalar(bytes, size, bit, class + i, n - i, weights + 2 * i);
}
#endif
