/* SPDX-License-Identifier: MIT
 *
 * A training: SGD whose gradients, or changes of weights after local steps, go through an exchange or are averaged as
 * floats. The learning rate falls to 0 linearly.
 */
#ifndef TLC_TEST_TRAIN_RUNS_H
#define TLC_TEST_TRAIN_RUNS_H

#include "train_exchange.h"

typedef struct schedule {
    size_t exchanges;
    size_t delay;    /* local steps before an exchange of changes; 0: gradients are exchanged */
    size_t batch;    /* rows of a gradient */
    size_t part;     /* ranks in a round, chosen by chance */
    double rate;     /* at the start */
    double momentum; /* of local steps */
} schedule;

typedef struct trained {
    float weights[MOST_VALUES];
    double loss;
    double rank_sent, server_sent; /* bytes, the mean of all */
    double gap;                    /* codec raw: a bound of the error of each exchange (2-norm), added up */
} trained;

/* o NULL: means are computed in double. With the codec raw, each exchange must give these means, to rounding. */
trained train(const data *d, const schedule *s, const cluster_options *o);
#endif
