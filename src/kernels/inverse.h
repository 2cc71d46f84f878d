/* SPDX-License-Identifier: MIT
 *
 * q / K without a division, for |q| <= 128 and K = 7 or 127, rounded as the division rounds: q high + q low.
 *
 * high is 1 / K cut to 16 bits, so q high is exact. low is the rest of 1 / K, so the sum is within a relative 2^-38 of
 * q / K before it is rounded. K is odd, so q / K is a float, or at least 2^-25 / K > 2^-32 away from where rounding
 * changes. For the same reason a compiler may fuse the multiplication and the addition.
 */
#ifndef TLC_INVERSE_H
#define TLC_INVERSE_H

#include "kernels.h"

typedef struct tlc_inverse {
    float high, low;
} tlc_inverse;

static inline tlc_inverse tlc_inverse_of(float K)
{
    tlc_inverse inverse = {.high = tlc_bits_float(tlc_float_bits(1.0f / K) & ~0xffu)};

    inverse.low = (1.0f - K * inverse.high) / K; /* the product of 7 and 16 bits is exact, and so is the difference */
    return inverse;
}
#endif
