/* SPDX-License-Identifier: MIT
 *
 * How much is sent, and how much waits: the 2-norms of what came to a sender in a step, and of what its frames left in
 * the residuals. The ratio tells whether a loop starves: see tlc_exchange_stats.
 *
 * The values are looked at right after a group was compressed. All count in a group of less than 2 * TLC_NORM_SAMPLE
 * values. In a larger one TLC_NORM_SAMPLE do at least, and a 64th at least, in pieces of four cache lines; another
 * piece has its turn in each step. So a step reads less than 1% more memory. The order of the sums is fixed: the norms
 * are the same on every machine and for any number of threads. No byte of a frame and no residual depends on them.
 */
#ifndef TLC_NORMS_H
#define TLC_NORMS_H

#include "../../values/input.h"

enum { TLC_NORM_SAMPLE = 512, TLC_NORM_PIECE = 64 };

/* Sums of squares. */
typedef struct tlc_norms {
    double signal;   /* gradients, means or changes, as they came */
    double residual; /* 0: nothing is kept */
} tlc_norms;

/* Adds the norms of n values and of their residual in this step. Call it in the float mode of tlc_float_enter. */
void tlc_norms_add(tlc_norms *norms, const tlc_input *in, size_t n, uint64_t step);
#endif
