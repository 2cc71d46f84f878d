/* SPDX-License-Identifier: MIT
 *
 * A channel sends one tensor through one codec or peer. It has the sender's context and frame buffer, and the
 * receiver's output and sum.
 */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include "../peers/peers.h"
#include "source.h"

/* What tensors are sent through. With neither codec nor peer a channel has buffers only. */
typedef struct channel_options {
    const char *codec;
    const peer *peer;
    tlc_isa isa;
    int feedback; /* as in tlc_config; -1: the codec's default */
    bool checksum, assume_finite;
    uint64_t seed;
    size_t delay; /* steps for each frame; those before the last one are accumulated. 0 is 1 */
    tlc_parallel parallel;
} channel_options;

typedef struct channel {
    const tensor *tensor;
    size_t delay;       /* at least 1 */
    tlc_ctx *ctx;       /* of a codec */
    const peer *peer;   /* or a peer, */
    void *state;        /* and its state */
    const float *start; /* n floats, the residual at the start; NULL: zero, or there is no residual */
    tlc_decode_options decode;
    unsigned char *frame; /* bound bytes, and at least ceil(n/5) */
    size_t bound;
    unsigned char *out; /* n values of the dtype */
    float *sum;         /* n floats */
} channel;

/* Memory at a multiple of 64; on Windows of 16, as free takes no other there. It is zeroed, so that no page is mapped
 * for the first time while the clock runs. The caller frees it. NULL: no memory. */
void *channel_buffer(size_t size);

/* A channel for each of the tensors. A residual starts from that of the tensor, or from zero if the tensor has none.
 * NULL: it failed, and why says so. */
channel *channels_open(const tensor *tensors, size_t count, tlc_dtype dtype, const channel_options *options, char *why);
void channels_close(channel *channels, size_t count); /* NULL is fine */

/* Whether a frame is sent at this step. It contains the steps that were accumulated before. */
static inline bool channel_sends(const channel *c, size_t step)
{
    return (step + 1) % c->delay == 0;
}

/* The steps of a pass over a tensor that has `steps`. With a delay they are repeated, from the first one on, until the
 * last frame is full. */
static inline size_t channel_steps(size_t steps, size_t delay)
{
    return delay > 1 ? (steps + delay - 1) / delay * delay : steps;
}

/* The residual becomes what it was at the start. For codecs, not for peers. */
void channel_restart(const channel *c);
bool channel_accumulate(const channel *c, size_t step, char *why);
/* Into c->frame. */
bool channel_compress(const channel *c, size_t step, size_t *len, char *why);
/* Into out: values of the dtype, which is f32 for peers. */
bool channel_decompress(const channel *c, const void *frame, size_t len, tlc_dtype dtype, void *out, char *why);
float *channel_residual(const channel *c); /* NULL without feedback */

/* Frames of all channels in the order in which a receiver gets them, step by step, each at a multiple of 64. */
typedef struct frame_store {
    unsigned char *bytes;
    size_t used, size;
    size_t *offset, *len; /* of each frame */
    size_t count, slots;
} frame_store;

bool frames_open(frame_store *frames, size_t slots, char *why);
bool frames_append(frame_store *frames, const void *frame, size_t len, char *why);
void frames_close(frame_store *frames);

/* Whether new contexts make the same frames. */
bool frames_match(const frame_store *frames, const tensor *tensors, size_t count, tlc_dtype dtype,
                  const channel_options *options, char *why);
#endif
