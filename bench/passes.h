/* SPDX-License-Identifier: MIT
 *
 * Passes: one operation over all steps of all channels. Those that are compared with tlc_parallel's run on its threads,
 * each on a slice of the tensor.
 */
#ifndef BENCH_PASSES_H
#define BENCH_PASSES_H

#include "channel.h"
#include "roofline.h"

/* What passes run on. */
typedef struct subject {
    const channel *channels;
    size_t count, steps;
    tlc_dtype dtype;
    uint64_t seed;             /* of random words */
    const frame_store *frames; /* of all steps of the channels; NULL: nothing to decode */
    const roofline_loops *loops;
    unsigned char *streamed;   /* where non-temporal stores go, of all channels: they would throw out of the caches what
                                  the other operations find there */
    size_t threads;
    tlc_parallel parallel;     /* with one thread it is not used */
} subject;

enum { COPY_LIBC, COPY_NON_TEMPORAL };

/* pass functions of an operation (measure.h); subject is a struct subject. Of steps that are only accumulated rooflines
 * have the sweeps that this cannot do without; decoding and random words are those of the frames. */
bool pass_copy(const void *subject, int which, char *why);     /* gradients to out; which: COPY_... */
bool pass_roofline(const void *subject, int which, char *why); /* f32 only; r is the channel's sum; which: roofline */
bool pass_compress(const void *subject, int which, char *why); /* the residual carried from the last step to the first */
bool pass_random(const void *subject, int which, char *why);   /* a random word for each value that is sent */
bool pass_decompress(const void *subject, int which, char *why);
bool pass_add(const void *subject, int which, char *why);      /* not for peers */
#endif
