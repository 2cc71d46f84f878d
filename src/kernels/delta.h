/* SPDX-License-Identifier: MIT
 *
 * Weights as integers that order like the floats, and which of them differ. Signs of weights and of differences are
 * hardly predictable, so there are no branches on them.
 */
#ifndef TLC_DELTA_H
#define TLC_DELTA_H

#include "../common/bits.h"
#include "kernels.h"

#define TLC_DELTA_INLINE static inline __attribute__((TLC_FORCED)) /* so that the unit is a constant */

/* What a delta is made of: weights, or halves of them. */
typedef enum tlc_weight_unit {
    TLC_UNIT_F32,
    TLC_UNIT_F16, /* bfloat16, too */
    TLC_UNIT_F8,
    TLC_UNIT_F4,  /* as TLC_UNIT_U4 */
    TLC_UNIT_U32, /* integers of any kind, and what else has 32 bits */
    TLC_UNIT_U8,
    TLC_UNIT_U4,  /* two a byte, the first one in its lower half */
    TLC_UNIT_HALF /* 32 bits of each weight of 64, all upper ones or all lower ones */
} tlc_weight_unit;

/* Its bits. */
static inline unsigned tlc_unit_width(tlc_weight_unit unit)
{
    switch (unit) {
    case TLC_UNIT_F16: return 16;
    case TLC_UNIT_F8:
    case TLC_UNIT_U8: return 8;
    case TLC_UNIT_F4:
    case TLC_UNIT_U4: return 4;
    default: return 32;
    }
}

/* Has it sign and magnitude? The others are integers modulo 2^width. */
static inline int tlc_unit_is_float(tlc_weight_unit unit)
{
    return unit <= TLC_UNIT_F4;
}

/* The bytes of n units, one after the other. */
static inline size_t tlc_unit_bytes(tlc_weight_unit unit, size_t n)
{
    return tlc_unit_width(unit) == 4 ? n / 2 : n * (size_t)(tlc_unit_width(unit) / 8);
}

/* Where the i-th unit is from the first one, in bytes: halves are 8 bytes apart. */
static inline size_t tlc_unit_offset(tlc_weight_unit unit, size_t i)
{
    return unit == TLC_UNIT_HALF ? 8 * i : tlc_unit_bytes(unit, i);
}

static inline uint32_t tlc_unit_mask(tlc_weight_unit unit)
{
    return UINT32_MAX >> (32 - tlc_unit_width(unit));
}

/* The i-th unit of weights in the machine's byte order, at any address. */
static inline uint32_t tlc_weight_load(const uint8_t *weights, size_t i, tlc_weight_unit unit)
{
    const unsigned width = tlc_unit_width(unit);
    uint32_t x;
    uint16_t half;

    if (width == 32) {
        memcpy(&x, weights + tlc_unit_offset(unit, i), sizeof x);
        return x;
    }
    if (width == 16) {
        memcpy(&half, weights + 2 * i, sizeof half);
        return half;
    }
    return width == 8 ? weights[i] : (uint32_t)weights[i / 2] >> i % 2 * 4 & 15;
}

static inline void tlc_weight_store(uint8_t *weights, size_t i, tlc_weight_unit unit, uint32_t x)
{
    const unsigned width = tlc_unit_width(unit);
    uint16_t half = (uint16_t)x;

    if (width == 32)
        memcpy(weights + tlc_unit_offset(unit, i), &x, sizeof x);
    else if (width == 16)
        memcpy(weights + 2 * i, &half, sizeof half);
    else if (width == 8)
        weights[i] = (uint8_t)x;
    else
        weights[i / 2] = (uint8_t)((weights[i / 2] & 0xf0u >> i % 2 * 4) | x << i % 2 * 4);
}

/* Floats with all bits but the sign inverted if the sign is 1: as two's complement it orders like them. It is its own
 * inverse. */
static inline uint32_t tlc_ordered(uint32_t x, tlc_weight_unit unit)
{
    return tlc_unit_is_float(unit) ? x ^ ((0 - (x >> (tlc_unit_width(unit) - 1))) & tlc_unit_mask(unit) >> 1) : x;
}

/* How far next is from base, modulo 2^width, -2^(width - 1) <= d < 2^(width - 1). */
static inline int32_t tlc_difference(uint32_t base, uint32_t next, tlc_weight_unit unit)
{
    const unsigned rest = 32 - tlc_unit_width(unit);

    return (int32_t)((tlc_ordered(next, unit) - tlc_ordered(base, unit)) << rest) >> rest;
}

static inline uint32_t tlc_magnitude(int32_t d)
{
    const uint32_t negative = (uint32_t)d >> 31;

    return ((uint32_t)d ^ (0 - negative)) + negative;
}

/* The next weight, from magnitude and sign of the difference. */
static inline uint32_t tlc_next_weight(uint32_t base, uint32_t magnitude, unsigned negative, tlc_weight_unit unit)
{
    uint32_t ordered = tlc_ordered(base, unit) + (magnitude ^ (0 - (uint32_t)negative)) + negative;

    return tlc_ordered(ordered & tlc_unit_mask(unit), unit);
}

/* The bits that x needs; 0 for 0. */
static inline unsigned tlc_bit_length(uint32_t x)
{
    return 63 - (unsigned)__builtin_clzll((uint64_t)x << 1 | 1);
}

/* A weight as class and extra bits. */
typedef struct tlc_delta_symbol {
    unsigned class;
    uint32_t bits;
} tlc_delta_symbol;

/* The sign of d takes the place of the leading one of |d|. */
TLC_DELTA_INLINE tlc_delta_symbol tlc_delta_symbol_of(const uint8_t *base, const uint8_t *next, size_t i,
                                                      tlc_weight_unit unit)
{
    const int32_t d = tlc_difference(tlc_weight_load(base, i, unit), tlc_weight_load(next, i, unit), unit);
    const uint32_t magnitude = tlc_magnitude(d);
    const unsigned class = tlc_bit_length(magnitude);
    const uint32_t leading = (uint32_t)(((uint64_t)1 << class) >> 1);

    return (tlc_delta_symbol){class, magnitude ^ (leading & (((uint32_t)d >> 31) - 1))};
}

/* The `count` bits from `bit` on, at most 32. */
static inline uint32_t tlc_delta_extra(const uint8_t *bytes, size_t size, uint64_t bit, unsigned count)
{
    const uint64_t window = tlc_bits_at(bytes, size, bit) >> 1; /* a shift by 64 would be undefined */

    return (uint32_t)(window >> (63 - count));
}

TLC_DELTA_INLINE void tlc_delta_move_symbol(uint8_t *weights, size_t i, unsigned class, uint32_t bits,
                                            tlc_weight_unit unit)
{
    const uint32_t leading = (uint32_t)(((uint64_t)1 << class) >> 1);

    tlc_weight_store(weights, i, unit,
                     tlc_next_weight(tlc_weight_load(weights, i, unit), bits | leading, (bits & leading) != 0, unit));
}

/* Moves the weights from i on whose bits of a word of the masks are 1. */
TLC_DELTA_INLINE void tlc_delta_move_word(uint8_t *weights, size_t i, uint64_t changed, uint64_t negative,
                                          tlc_weight_unit unit)
{
    for (; changed; changed &= changed - 1) {
        const unsigned k = (unsigned)__builtin_ctzll(changed);
        tlc_weight_store(weights, i + k, unit,
                         tlc_next_weight(tlc_weight_load(weights, i + k, unit), 1, negative >> k & 1, unit));
    }
}

/* The word of the masks for weights i .. i + count - 1, count <= 64. Returns how many differ. */
TLC_DELTA_INLINE uint64_t tlc_delta_word(const uint8_t *base, const uint8_t *next, size_t i, size_t count,
                                         uint64_t *changed, uint64_t *negative, uint64_t *large, tlc_weight_unit unit)
{
    uint64_t any = 0, minus = 0, much = 0, sum = 0;

    for (size_t k = count; k--;) {
        const int32_t d = tlc_difference(tlc_weight_load(base, i + k, unit), tlc_weight_load(next, i + k, unit), unit);

        any = any << 1 | (d != 0);
        minus = minus << 1 | (d < 0);
        much = much << 1 | (tlc_magnitude(d) > 1);
        sum += d != 0;
    }
    changed[i / 64] = any;
    negative[i / 64] = minus;
    large[i / 64] = much;
    return sum;
}

/* Defines the kernels that compare weights, of an ISA: delta16 and so on. attributes: of the functions.
 * compare: does it, with the unit as a constant. */
#define TLC_DELTA_COMPARE(kernel, unit, isa, attributes, compare)                                                      \
    attributes uint64_t tlc_##kernel##_##isa(const void *base, const void *next, size_t n, uint64_t *changed,          \
                                             uint64_t *negative, uint64_t *large)                                      \
    {                                                                                                                  \
        return compare(base, next, n, changed, negative, large, unit);                                                 \
    }
#define TLC_DELTA_COMPARES(isa, attributes, compare)                                                                   \
    TLC_DELTA_COMPARE(delta16, TLC_UNIT_F16, isa, attributes, compare)                                                 \
    TLC_DELTA_COMPARE(delta32, TLC_UNIT_F32, isa, attributes, compare)                                                 \
    TLC_DELTA_COMPARE(delta8, TLC_UNIT_F8, isa, attributes, compare)                                                   \
    TLC_DELTA_COMPARE(delta4, TLC_UNIT_F4, isa, attributes, compare)                                                   \
    TLC_DELTA_COMPARE(delta_u32, TLC_UNIT_U32, isa, attributes, compare)                                               \
    TLC_DELTA_COMPARE(delta_u8, TLC_UNIT_U8, isa, attributes, compare)                                                 \
    TLC_DELTA_COMPARE(delta_u4, TLC_UNIT_U4, isa, attributes, compare)
#endif
