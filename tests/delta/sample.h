/* SPDX-License-Identifier: MIT
 *
 * Weights before and after a step, and the frame of it.
 */
#ifndef SAMPLE_H
#define SAMPLE_H

#include "../support/support.h"
#include <threelc/delta.h>

enum { BLOCK = 65536, SAMPLE_MOST = 2 * BLOCK + 1000 };

typedef struct sample {
    tlc_dtype dtype;
    size_t n, len;
    uint8_t *base, *next, *frame;
} sample;

/* The blocks are sparse, dense and raw in turn; rarely: few differ in all of them; has_base 0: the frame has all. */
sample sample_made(tlc_dtype dtype, size_t n, int rarely, int has_base);
void sample_discard(sample *s);

/* next: n weights, moved from the base as `kind` says: 0 few, 1 many, 2 any, 3 in turn by block. */
void sample_move(tlc_dtype dtype, const uint8_t *base, uint8_t *next, size_t n, size_t kind, uint64_t seed);

/* The frame from base to next; base NULL: without. */
uint8_t *sample_frame(tlc_dtype dtype, const uint8_t *base, const uint8_t *next, size_t n, size_t *len,
                      const tlc_delta_options *opt);
#endif
