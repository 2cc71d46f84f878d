/* SPDX-License-Identifier: MIT
 *
 * Workers in one process exchange tensors through the public API of the library. A worker has a context for each
 * tensor. A server decodes all frames and averages them; it may have contexts for what it answers. Frames are counted;
 * nothing is sent. Workers wait for each other.
 */
#ifndef OPTIMISERS_EXCHANGE_H
#define OPTIMISERS_EXCHANGE_H

#include "perceptron.h"
#include <threelc/threelc.h>

enum { MOST_WORKERS = 16, SMALL = 256 /* tensors with fewer values are sent as raw */ };

typedef struct exchange {
    size_t workers;
    const char *codec;  /* NULL: plain averages, without the library */
    const char *answer; /* NULL: answers are floats, which are not counted */
    tlc_ctx *ctx[MOST_WORKERS][TENSORS];
    tlc_ctx *server[TENSORS];
    unsigned char *frame;
    size_t capacity;
    uint64_t bytes; /* of all frames so far; an answer goes to each worker */
    double seconds; /* of average and answer so far, of one core */
} exchange;

/* codec and answer must live as long as the exchange. Every context gets a seed of its own, made of seed. */
bool exchange_open(exchange *x, const char *codec, const char *answer, size_t workers, uint64_t seed, char *why);
void exchange_close(exchange *x);

/* Switches large tensors to raw for a warm-up, or back to the codec. */
bool exchange_warm_up(exchange *x, bool on, char *why);

/* mean = the average of what the workers have, as it arrives. each[worker] and mean have PARAMETERS values.
 * TLC_ERR_NONFINITE: the training has diverged. */
tlc_status exchange_average(exchange *x, float *const *each, float *mean);

/* Replaces the values that the server answers with by what workers get of them. There is an answer codec. */
tlc_status exchange_answer(exchange *x, float *values);
#endif
