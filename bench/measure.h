/* SPDX-License-Identifier: MIT
 *
 * Speeds. Everything is measured in rounds: memcpy, compress, decompress, decompress-add, one after the other, so that
 * what disturbs the machine disturbs them alike; medians over the rounds are compared.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "channel.h"

enum { OP_MEMCPY, OP_COMPRESS, OP_DECOMPRESS, OP_ADD, OPS };

typedef struct speed {
    double median, best; /* GB/s of input, 1e9 bytes; NaN if there are no bytes */
} speed;

typedef struct measured {
    size_t rounds;
    speed speed[OPS];
} measured;

typedef struct measure_options {
    double seconds; /* at least this long, and at least 5 rounds */
    size_t warmup;  /* steps before the clock starts, rounded up to whole passes, at least one */
} measure_options;

/* Keeps the process on the core that it runs on, where the system can; caches and clock stay the same for all rows. */
void measure_pin(void);

/* Compresses all steps of the channels again and again, the residual carried from the last step to the first; copies the
 * same gradients; decodes frames, which hold the channels' frames of all steps. */
bool measure(const channel *channels, size_t count, tlc_dtype dtype, tlc_isa isa, const frame_store *frames,
             const measure_options *options, measured *result, char *why);
#endif
