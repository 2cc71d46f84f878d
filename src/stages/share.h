/* SPDX-License-Identifier: MIT
 *
 * The parameter p of sparse stages, a share of the values.
 */
#ifndef TLC_SHARE_H
#define TLC_SHARE_H

#include "stage.h"

/* p n in binary64, half to even, or rounded up; at most n. */
static inline uint64_t tlc_share_nearest(double p, uint64_t n)
{
    double share = p * (double)n;

    if (share >= (double)n)
        return n;
    return (uint64_t)(share < 0x1p52 ? share + 0x1p52 - 0x1p52 : share); /* from 2^52 on all are whole */
}

static inline uint64_t tlc_share_up(double p, uint64_t n)
{
    double share = p * (double)n;
    uint64_t whole;

    if (share >= (double)n)
        return n;
    whole = (uint64_t)share;
    return whole + ((double)whole < share);
}

#define TLC_SHARE_PARAM(share, what)                                                                                    \
    {                                                                                                                   \
        .key = "p", .mantissa = 53, .least = 0x1p-1074, .below = 1.0 + DBL_EPSILON, .fallback = share,                  \
        .range = "0 < p <= 1, default " #share, .meaning = what                                                         \
    }
#endif
