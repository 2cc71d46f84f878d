/* SPDX-License-Identifier: MIT
 *
 * Weights as integers that order like the floats, and which of them differ.
 */
#ifndef TLC_DELTA_H
#define TLC_DELTA_H

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
    return x ^ (x >> (width - 1) ? ((uint32_t)1 << (width - 1)) - 1 : 0);
}

/* How far next is from base, modulo 2^width, -2^(width - 1) <= d < 2^(width - 1). */
static inline int32_t tlc_difference(uint32_t base, uint32_t next, unsigned width)
{
    uint32_t d = tlc_ordered(next, width) - tlc_ordered(base, width);

    return width == 32 ? (int32_t)d : (int16_t)d;
}

static inline uint32_t tlc_magnitude(int32_t d)
{
    return d < 0 ? 0 - (uint32_t)d : (uint32_t)d;
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
