/* SPDX-License-Identifier: MIT
 *
 * Ranks of an all-reduce whose devices quantize, average and decode, for tests of tlc_allreduce_push_frames,
 * _reduce_frames and _pull_frames.
 */
#ifndef TLC_TEST_DEVICE_RANKS_H
#define TLC_TEST_DEVICE_RANKS_H

#include "../support/support.h"
#include <threelc/exchange.h>

enum { RANKS = 3, TENSORS = 3, LARGE = 5003, MIDDLE = 300, SMALL = 10, STEPS = 12, PARTS = 8 };
extern const size_t lengths[TENSORS];

/* A rank, with a device that keeps the residuals of its parts. */
typedef struct rank {
    tlc_allreduce *object;
    tlc_message to[RANKS], answer;
    float *grad[TENSORS], *residual[TENSORS], *out[TENSORS];
    float *kept[TENSORS]; /* the device's residuals; NULL: there is no device */
    float *owned[PARTS];  /* its residuals of answers, of the large tensor */
    uint8_t *frame[PARTS], *scratch;
    const char *pull; /* the codec of answers, with blocks if that of pushes has some, and its multiplier */
    float pull_s;
} rank;

rank rank_open(uint32_t i, const char *codec, int gather, int has_device);
void rank_close(rank *r);

/* The gradient of rank i. Rank 1 has no finite one in steps 3 and 5. */
void rank_draw(rank *r, uint32_t i, uint64_t step);
const void *const *rank_grads(const rank *r);

/* Quantizes n values in place, of which what is not sent is left, and makes their frame. */
tlc_message rank_frame(const rank *r, const char *codec, float s, float *x, size_t n, uint8_t *frame);

/* The same of residual + gradient of a part. */
tlc_message rank_quantize(rank *r, const char *codec, const tlc_part *part, uint8_t *frame);

/* A push, of which the device makes the frames of the large and the middle tensor. */
void rank_push(rank *r, const char *codec);

/* Rank i averages its parts of the large tensor on the device, if there is one, the object the others. In step 7 a push
 * is lost. */
void rank_reduce(rank *ranks, uint32_t i, uint64_t step);

/* The device decodes the large tensor, the object the others. */
tlc_status rank_pull(rank *ranks, uint32_t i, int gather);

/* What came back to the host goes to the device. */
void rank_take_back(rank *r);
#endif
