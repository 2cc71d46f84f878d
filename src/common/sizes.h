/* SPDX-License-Identifier: MIT
 *
 * Sums and products of sizes, which show an overflow.
 */
#ifndef TLC_SIZES_H
#define TLC_SIZES_H

#include "float_rules.h"

static inline size_t tlc_smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tlc_smaller_64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tlc_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* UINT64_MAX if a sum or product overflows. */
static inline uint64_t tlc_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t tlc_product(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
#endif
