/* SPDX-License-Identifier: MIT
 *
 * A fraction p of n values as a whole number of values.
 */
#ifndef TLC_FRACTION_H
#define TLC_FRACTION_H

#include "../common/float_rules.h"

/* Rounds x to the nearest whole number, half to even. From 2^52 on all numbers are whole. Call this before a conversion
 * to integer: on i386 the conversion of a fraction would set flags of a float unit whose state we must not change. */
static inline double tlc_whole(double x)
{
    return x < 0x1p52 ? x + 0x1p52 - 0x1p52 : x;
}

/* p n in binary64, rounded half to even; at most n. */
static inline uint64_t tlc_fraction_nearest(double p, uint64_t n)
{
    double part = p * (double)n;
    return part < (double)n ? (uint64_t)tlc_whole(part) : n;
}

/* x rounded up; at most n. */
static inline uint64_t tlc_rounded_up(double x, uint64_t n)
{
    double whole = tlc_whole(x);
    return x < (double)n ? (uint64_t)(whole < x ? whole + 1.0 : whole) : n;
}

/* p n in binary64, rounded up; at most n. */
static inline uint64_t tlc_fraction_up(double p, uint64_t n)
{
    return tlc_rounded_up(p * (double)n, n);
}
#endif
