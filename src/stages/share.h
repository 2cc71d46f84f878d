/* SPDX-License-Identifier: MIT
 *
 * The parameter p of sparse stages, a share of the values.
 */
#ifndef TLC_SHARE_H
#define TLC_SHARE_H

#include "stage.h"

/* share to the nearest whole number, half to even; from 2^52 on all are whole. Conversions to integers are given nothing
 * else: of a fraction, i386's would set the flags of a float unit whose state is not ours to change. */
static inline double tlc_whole(double share)
{
    return share < 0x1p52 ? share + 0x1p52 - 0x1p52 : share;
}

/* p n in binary64, half to even, or rounded up; at most n. */
static inline uint64_t tlc_share_nearest(double p, uint64_t n)
{
    double share = p * (double)n;
    return share < (double)n ? (uint64_t)tlc_whole(share) : n;
}

static inline uint64_t tlc_share_up(double p, uint64_t n)
{
    double share = p * (double)n, whole = tlc_whole(share);
    return share < (double)n ? (uint64_t)(whole < share ? whole + 1.0 : whole) : n;
}

#define TLC_SHARE_PARAM(share, what)                                                                                    \
    {                                                                                                                   \
        .key = "p", .mantissa = 53, .least = 0x1p-1074, .below = 1.0 + DBL_EPSILON, .fallback = (share),                \
        .range = "0 < p <= 1, default " #share, .meaning = (what)                                                       \
    }
#endif
