/* SPDX-License-Identifier: MIT
 *
 * Adds many frames in one sweep over the sum. A part of the sum stays in the cache while it gets the values of all
 * frames, one after the other. So each value is a sum in the order of the frames.
 */
#ifndef TLC_DECODE_MANY_H
#define TLC_DECODE_MANY_H

#include "decode.h"

typedef struct tlc_many {
    const tlc_kernels *k;
    const tlc_message *frames;
    const float *weights; /* NULL: all are 1 */
    size_t count;
    float *sum;
    size_t n;
    int from_zero; /* the sum is 0 before */
    const tlc_parallel *parallel;
} tlc_many;

/* Checks all frames and weights. If it fails, *bad is the first frame at fault. */
tlc_status tlc_many_check(const tlc_many *m, size_t *bad);

/* Adds the frames, which have passed the check. Needs the default float mode. */
void tlc_many_add(const tlc_many *m);
#endif
