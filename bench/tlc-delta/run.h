/* SPDX-License-Identifier: MIT
 *
 * What all commands share: threads, progress, and memory of a tensor.
 */
#ifndef DELTA_RUN_H
#define DELTA_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <threelc/weights.h>

typedef struct run {
    tlc_parallel parallel;
    bool quiet;
    bool has_dtype; /* of raw files; else it depends on their names */
    tlc_dtype dtype;
    bool block_digests; /* of frames that are made */
} run;

/* Shows on a terminal what is done with an entry, before which `done` of `count` are done. Returns false if the run
 * should end. */
bool run_goes_on(const run *r, uint64_t done, uint64_t count, const char *name, const char *what, char *why);
void run_done(const run *r);

/* Options of calls for deltas. message: TLC_MESSAGE_SIZE bytes. */
tlc_delta_options run_options(const run *r, char *message);

/* Memory that grows. */
typedef struct buffer {
    uint8_t *bytes;
    size_t size;
} buffer;

/* Makes room for `size` bytes; what was in it is lost. */
bool buffer_reserve(buffer *b, uint64_t size, char *why);
void buffer_free(buffer *b);
#endif
