/* SPDX-License-Identifier: MIT */
#ifndef TLC_COMPACT_H
#define TLC_COMPACT_H

#include "../kernels/kernels.h"

/* The values whose bits are set in mask, in order; returns how many. */
static inline size_t tlc_compact(const float *x, const uint64_t *mask, size_t count, float *out)
{
    float *to = out;

    for (size_t w = 0; w * 64 < count; w++)
        for (uint64_t bits = mask[w]; bits; bits &= bits - 1)
            *to++ = x[w * 64 + (size_t)__builtin_ctzll(bits)];
    return (size_t)(to - out);
}
#endif
