/* SPDX-License-Identifier: MIT
 *
 * What the two tests of fused kernels share.
 */
#ifndef TLC_TEST_FUSED_H
#define TLC_TEST_FUSED_H

#include "../../src/coding/fused.h"
#include "../support/support.h"

static const float weights[] = {1.0f, -0.37f, 0.0f, -0.0f, 0x1p127f, 0x1p-149f};

/* What sums may already be. */
static inline void fill_sums(uint64_t seed, float *sum, size_t n)
{
    static const uint32_t bits[] = {0,          0x80000000, 0x3f800000, 0xbfc00000, 0x7f800000, 0xff800000,
                                    0x7fc00000, 0xffc12345, 0x7f812345, 0x7f7fffff, 0xff7fffff, 1};
    rng r = {seed};

    for (size_t i = 0; i < n; i++)
        sum[i] = bits_float(bits[rng_below(&r, COUNT(bits))]);
}

#endif
