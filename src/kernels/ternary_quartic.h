/* SPDX-License-Identifier: MIT */
#ifndef TLC_TERNARY_QUARTIC_H
#define TLC_TERNARY_QUARTIC_H

#include "kernels.h"

/* Adds bytes from .. to - 1 of one frame after the other, with the kernel `add` of one frame. Takes few bytes at a
 * time, so that the sums stay in the first-level cache. */
static inline void tlc_add_singly(void (*add)(const uint8_t *in, size_t len, float w, float *const sum[5]),
                                  const uint8_t *const *in, const float *w, size_t frames, size_t from, size_t to,
                                  float *const sum[5])
{
    enum { PIECE = 512 };

    for (size_t count; from < to; from += count) {
        float *const at[5] = {sum[0] + from, sum[1] + from, sum[2] + from, sum[3] + from, sum[4] + from};
        count = to - from < PIECE ? to - from : PIECE;
        for (size_t f = 0; f < frames; f++)
            add(in[f] + from, count, w[f], at);
    }
}
#endif
