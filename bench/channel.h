/* SPDX-License-Identifier: MIT
 *
 * One tensor on its way through one codec: the sender's context and frame buffer, the receiver's output and sum.
 */
#ifndef BENCH_CHANNEL_H
#define BENCH_CHANNEL_H

#include "source.h"

typedef struct channel_options {
    tlc_isa isa;
    int feedback; /* as tlc_config has it: -1 the codec's default */
    int checksum;
    uint64_t seed;
} channel_options;

typedef struct channel {
    const tensor *tensor;
    tlc_ctx *ctx;
    unsigned char *frame; /* bound bytes */
    size_t bound;
    unsigned char *out;   /* n values of the dtype */
    float *sum;           /* n floats */
} channel;

/* A channel for each of the count tensors. NULL: it failed, and why says so. */
channel *channels_open(const tensor *tensors, size_t count, tlc_dtype dtype, const char *codec,
                       const channel_options *options, char *why);
void channels_close(channel *channels, size_t count); /* NULL is fine */

/* Frames of count steps of all channels, as a receiver gets them: step by step, each at a multiple of 64. */
typedef struct frame_store {
    unsigned char *bytes;
    size_t used, size;
    size_t *offset, *len; /* of each frame */
    size_t count, slots;
} frame_store;

bool frames_open(frame_store *frames, size_t slots, char *why);
bool frames_append(frame_store *frames, const void *frame, size_t len, char *why);
void frames_close(frame_store *frames);
#endif
