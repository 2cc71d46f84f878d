/* SPDX-License-Identifier: MIT
 *
 * Weights as integers that order like the floats, and which of them differ. Signs of weights and of differences are
 * hardly predictable, so there are no branches on them.
 */
#ifndef TLC_DELTA_H
#define TLC_DELTA_H

#include "../common/bits.h"
#include "kernels.h"

#define TLC_DELTA_INLINE static inline __attribute__((always_inline)) /* so that width is a constant */

/* The i-th weight of `width` bits, 16 or 32, in the machine's byte order, at any address. */
static inline uint32_t tlc_weight_load(const uint8_t *weights, size_t i, unsigned width)
{
    uint32_t x;
    uint16_t half;

    if (width == 32) {
        memcpy(&x, weights + 4 * i, sizeof x);
        return x;
    }
    memcpy(&half, weights + 2 * i, sizeof half);
    return half;
}

/* x with all bits but the sign inverted if the sign is 1: as two's complement it orders like the floats. It is its own
 * inverse. */
static inline uint32_t tlc_ordered(uint32_t x, unsigned width)
{
    return x ^ ((0 - (x >> (width - 1))) & (((uint32_t)1 << (width - 1)) - 1));
}

/* How far next is from base, modulo 2^width, -2^(width - 1) <= d < 2^(width - 1). */
static inline int32_t tlc_difference(uint32_t base, uint32_t next, unsigned width)
{
    uint32_t d = tlc_ordered(next, width) - tlc_ordered(base, width);

    return width == 32 ? (int32_t)d : (int16_t)d;
}

static inline uint32_t tlc_magnitude(int32_t d)
{
    const uint32_t negative = (uint32_t)d >> 31;

    return ((uint32_t)d ^ (0 - negative)) + negative;
}

static inline void tlc_weight_store(uint8_t *weights, size_t i, unsigned width, uint32_t x)
{
    uint16_t half = (uint16_t)x;

    if (width == 32)
        memcpy(weights + 4 * i, &x, sizeof x);
    else
        memcpy(weights + 2 * i, &half, sizeof half);
}

/* The next weight, from magnitude and sign of the difference. */
static inline uint32_t tlc_next_weight(uint32_t base, uint32_t magnitude, unsigned negative, unsigned width)
{
    uint32_t ordered = tlc_ordered(base, width) + (magnitude ^ (0 - (uint32_t)negative)) + negative;

    return tlc_ordered(width == 32 ? ordered : ordered & 0xffff, width);
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
                                                      unsigned width)
{
    const int32_t d = tlc_difference(tlc_weight_load(base, i, width), tlc_weight_load(next, i, width), width);
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

TLC_DELTA_INLINE void tlc_delta_move_symbol(uint8_t *weights, size_t i, unsigned class, uint32_t bits, unsigned width)
{
    const uint32_t leading = (uint32_t)(((uint64_t)1 << class) >> 1);

    tlc_weight_store(weights, i, width,
                     tlc_next_weight(tlc_weight_load(weights, i, width), bits | leading, (bits & leading) != 0, width));
}

/* Moves the weights from i on whose bits of a word of the masks are 1. */
TLC_DELTA_INLINE void tlc_delta_move_word(uint8_t *weights, size_t i, uint64_t changed, uint64_t negative,
                                          unsigned width)
{
    for (; changed; changed &= changed - 1) {
        const unsigned k = (unsigned)__builtin_ctzll(changed);
        tlc_weight_store(weights, i + k, width,
                         tlc_next_weight(tlc_weight_load(weights, i + k, width), 1, negative >> k & 1, width));
    }
}

/* The word of the masks for weights i .. i + count - 1, count <= 64. Returns how many differ. */
TLC_DELTA_INLINE uint64_t tlc_delta_word(const uint8_t *base, const uint8_t *next, size_t i, size_t count,
                                         uint64_t *changed, uint64_t *negative, uint64_t *large, unsigned width)
{
    uint64_t any = 0, minus = 0, much = 0, sum = 0;

    for (size_t k = count; k--;) {
        const int32_t d = tlc_difference(tlc_weight_load(base, i + k, width), tlc_weight_load(next, i + k, width),
                                         width);

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
#endif
