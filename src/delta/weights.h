/* SPDX-License-Identifier: MIT
 *
 * Weights and their differences, one at a time; kernels/delta.h has the rest.
 */
#ifndef TLC_DELTA_WEIGHTS_H
#define TLC_DELTA_WEIGHTS_H

#include "../kernels/delta.h"

static inline void tlc_weight_store(uint8_t *weights, size_t i, unsigned width, uint32_t x)
{
    uint16_t half = (uint16_t)x;

    if (width == 32)
        memcpy(weights + 4 * i, &x, sizeof x);
    else
        memcpy(weights + 2 * i, &half, sizeof half);
}

/* Copies n weights from the machine's byte order to little-endian, or back. */
static inline void tlc_weights_convert(uint8_t *dst, const uint8_t *src, size_t n, unsigned width)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(dst, src, n * (width / 8));
#else
    for (size_t i = 0; i < n; i++) {
        uint32_t x = tlc_weight_load(src, i, width);
        tlc_weight_store(dst, i, width, width == 32 ? __builtin_bswap32(x) : __builtin_bswap16((uint16_t)x));
    }
#endif
}

/* The next weight, from magnitude and sign of the difference. */
static inline uint32_t tlc_next_weight(uint32_t base, uint32_t magnitude, unsigned negative, unsigned width)
{
    uint32_t ordered = tlc_ordered(base, width) + (negative ? 0 - magnitude : magnitude);

    return tlc_ordered(width == 32 ? ordered : ordered & 0xffff, width);
}

/* The bits that x needs; 0 for 0. */
static inline unsigned tlc_bit_length(uint32_t x)
{
    return x ? 32 - (unsigned)__builtin_clz(x) : 0;
}
#endif
