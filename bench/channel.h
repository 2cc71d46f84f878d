/* SPDX-License-Identifier: MIT
 *
 * One tensor on its way through one codec or peer: the sender's context and frame buffer, the receiver's output and sum.
 */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include "peers.h"
#include "source.h"

/* What tensors are sent through; with neither codec nor peer there are buffers only. */
typedef struct channel_options {
    const char *codec;
    const peer *peer;
    tlc_isa isa;
    int feedback; /* as tlc_config has it: -1 the codec's default */
    int checksum, assume_finite;
    uint64_t seed;
    size_t delay; /* one frame for so many steps: the others are accumulated; 0: as 1 */
    tlc_parallel parallel;
} channel_options;

typedef struct channel {
    const tensor *tensor;
    size_t delay;         /* at least 1 */
    tlc_ctx *ctx;         /* of a codec */
    const peer *peer;     /* or a peer, */
    void *state;          /* and its state */
    tlc_decode_options decode;
    unsigned char *frame; /* bound bytes, and at least ceil(n/5) */
    size_t bound;
    unsigned char *out;   /* n values of the dtype */
    float *sum;           /* n floats */
} channel;

/* At a multiple of 64, its pages mapped and zeroed, so that none is mapped for the first time under the clock. NULL: no
 * memory. For free(). */
void *channel_buffer(size_t size);

/* A channel for each of the count tensors. NULL: it failed, and why says so. */
channel *channels_open(const tensor *tensors, size_t count, tlc_dtype dtype, const channel_options *options, char *why);
void channels_close(channel *channels, size_t count); /* NULL is fine */

/* Whether the step's frame is sent, the gradients of those before it with it. */
static inline bool channel_sends(const channel *c, size_t step)
{
    return (step + 1) % c->delay == 0;
}

bool channel_accumulate(const channel *c, size_t step, char *why);
/* Into c->frame. */
bool channel_compress(const channel *c, size_t step, size_t *len, char *why);
/* Into out, values of the dtype, which for peers is f32. */
bool channel_decompress(const channel *c, const void *frame, size_t len, tlc_dtype dtype, void *out, char *why);
const float *channel_residual(const channel *c); /* NULL without feedback */

/* Frames of all channels, as a receiver gets them: step by step, each at a multiple of 64. */
typedef struct frame_store {
    unsigned char *bytes;
    size_t used, size;
    size_t *offset, *len; /* of each frame */
    size_t count, slots;
} frame_store;

bool frames_open(frame_store *frames, size_t slots, char *why);
bool frames_append(frame_store *frames, const void *frame, size_t len, char *why);
void frames_close(frame_store *frames);

/* Whether fresh contexts of the tensors make the very frames of all steps. */
bool frames_match(const frame_store *frames, const tensor *tensors, size_t count, tlc_dtype dtype,
                  const channel_options *options, char *why);
#endif
