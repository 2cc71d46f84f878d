/* SPDX-License-Identifier: MIT
 *
 * A pass is one operation over all steps of all channels. With several threads copies and rooflines use the threads of
 * tlc_parallel, too, each for a slice of the tensor.
 */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

#include "../lib/channel.h"
#include "../lib/roofline.h"

/* What a pass works on. */
typedef struct subject {
    const channel *channels;
    size_t count, steps;
    tlc_dtype dtype;
    uint64_t seed;             /* for random words */
    const frame_store *frames; /* of all steps of the channels; NULL: nothing to decode */
    const roofline_loops *loops;
    unsigned char *streamed; /* the target of non-temporal stores for all channels, at a multiple of 64; they remove it
                                  from the caches, so other operations do not use it */
    void *stream_memory;     /* what is freed of it */
    size_t threads;
    tlc_parallel parallel; /* for more than one thread */
} subject;

enum { COPY_LIBC, COPY_NON_TEMPORAL };

/* Where the slice of a thread begins, a multiple of unit; that of index = threads is total. */
size_t pass_slice_start(size_t total, size_t unit, size_t index, size_t threads);
/* Runs task(arg, index) on each thread. */
void pass_slices(const subject *s, void (*task)(void *arg, size_t index), void *arg);

/* The functions for struct operation (measure.h). subject points to a struct subject. For a step that is only
 * accumulated, a roofline does only the sweeps that tlc_accumulate needs. Decoding and random words are only for
 * steps with a frame. */
bool pass_copy(const void *subject, int which, char *why);     /* copies gradients to out; which: COPY_... */
bool pass_roofline(const void *subject, int which, char *why); /* f32 only; r is channel.sum; which: enum roofline */
bool pass_compress(const void *subject, int which, char *why); /* the next pass goes on with the residual of this one */
bool pass_random(const void *subject, int which, char *why);   /* a random word for each value that is sent */
bool pass_decompress(const void *subject, int which, char *why);
bool pass_add(const void *subject, int which, char *why); /* not for peers */
#endif
