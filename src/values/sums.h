/* SPDX-License-Identifier: MIT
 *
 * Sums and means. They are the same on all machines, because they have one order: sums are binary64, over chunks of
 * TLC_SUM_CHUNK values of the unit. A chunk has 16 lanes (index mod 16), folded 16-8-4-2-1. The chunks are added in
 * rising order. The mean is rounded to binary32 once.
 */
#ifndef TLC_SUMS_H
#define TLC_SUMS_H

#include "../common/float_rules.h"

static inline float tlc_mean(double sum, uint64_t count)
{
    return count ? (float)(sum / (double)count) : 0.0f;
}

/* The sum of those of the n values x of a chunk whose bits in mask are 1. keep: the bits of a value that count, all of
 * them or TLC_F32_ABS. */
double tlc_masked_sum(const float *x, uint32_t keep, const uint64_t *mask, size_t n);

/* The same of values that come one after the other, by rising index. All 0: of none. */
typedef struct tlc_running_sum {
    double lane[16], before; /* of the chunk of the last value; of the chunks before it */
    uint64_t chunk, count;
} tlc_running_sum;
void tlc_running_add(tlc_running_sum *s, uint64_t index, float x);
double tlc_running_total(tlc_running_sum *s); /* afterwards nothing can be added */

static inline float tlc_running_mean(tlc_running_sum *s)
{
    return tlc_mean(tlc_running_total(s), s->count);
}
#endif
