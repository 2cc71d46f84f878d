/* SPDX-License-Identifier: MIT
 *
 * Sums and means in the one order that all machines follow: binary64; chunks of TLC_CHUNK values of the unit; within a
 * chunk 16 lanes (index mod 16), folded 16-8-4-2-1; chunks in rising order; the mean rounded to binary32 once. Values
 * that are not in the sum add nothing.
 */
#ifndef TLC_SUMS_H
#define TLC_SUMS_H

#include "../common/float_rules.h"

static inline float tlc_mean(double sum, uint64_t count)
{
    return count ? (float)(sum / (double)count) : 0.0f;
}

/* The sum of the values of a chunk, x[0 .. n], whose bits are set in mask. */
double tlc_masked_sum(const float *x, const uint64_t *mask, size_t n);
#endif
