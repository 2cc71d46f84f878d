/* SPDX-License-Identifier: MIT
 *
 * Weights and their differences, one at a time; kernels/delta.h has the rest.
 */
#ifndef TLC_DELTA_WEIGHTS_H
#define TLC_DELTA_WEIGHTS_H

#include "../kernels/delta.h"

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
#endif
