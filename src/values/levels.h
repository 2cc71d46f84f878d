/* SPDX-License-Identifier: MIT
 *
 * Uniform levels: q = x / max * K as a whole number from -K to K.
 */
#ifndef TLC_UNIFORM_LEVELS_H
#define TLC_UNIFORM_LEVELS_H

#include "../kernels/kernels.h"

/* words NULL: to the nearest level; else up or down at random. If max is 0, so is every q. */
static inline void tlc_levels_of(const tlc_kernels *k, const float *x, const uint32_t *words, size_t count, float max,
                                 float K, int8_t *q)
{
    if (max > 0)
        k->levels_encode(x, words, count, max, K, q);
    else
        memset(q, 0, count);
}

/* Are all bytes levels? -128 is not. */
static inline int tlc_levels_valid(const tlc_kernels *k, const uint8_t *q, size_t n)
{
    static const tlc_bytes_rule levels = {.keep = 0xff, .least = 0x81, .above = 0xfe, .other = 0x81};
    return k->bytes_allowed(q, n, &levels);
}
#endif
