/* SPDX-License-Identifier: MIT
 *
 * Decentralised trainings in one process: each node has a model of its own, and knows something of the models of its
 * neighbours in a graph. In each step it starts at the weighted mean of what it knows, and adds -rate * the gradient at
 * its own model. The learning rate falls to 0 linearly.
 */
#ifndef TLC_TEST_TRAIN_GOSSIP_H
#define TLC_TEST_TRAIN_GOSSIP_H

#include "train_runs.h"
#include <threelc/gossip.h>

enum { DECADES = 4 };

typedef enum gossip_way {
    GOSSIP_FLOATS, /* D-PSGD: the models themselves */
    GOSSIP_NAIVE,  /* the quantized models: x_i becomes the sum of W_ij C(x_j) - rate * gradient */
    GOSSIP_DCD,    /* objects of the library */
    GOSSIP_ECD,
    GOSSIP_ECD_HERE, /* the equations of ECD, computed here: for a quantizer that no codec has, and to see estimates */
    GOSSIP_WAYS
} gossip_way;
extern const char *const gossip_names[GOSSIP_WAYS];

typedef struct gossip_options {
    gossip_way way;
    const char *codec; /* NULL: each value is rounded at random to a multiple of `spacing`, without bias */
    double spacing;
    tlc_graph_kind graph;
    double lazy; /* W is that of tlc_graph_neighbours times 1 - lazy, plus lazy * the identity */
} gossip_options;

typedef struct gossiped {
    double loss;           /* of the mean of all models, on all rows */
    double sent;           /* DCD and ECD: bytes of a node's messages in a step, once for each neighbour */
    uint64_t stayed;       /* DCD and ECD: steps in which a node stayed where it was, as a value was not finite */
    double error[DECADES]; /* ECD_HERE: of estimates after 10, 100, ... steps: the root of the mean square */
    double largest;        /* NAIVE and ECD_HERE: magnitude of what was quantized */
} gossiped;

/* s->batch, exchanges (steps) and rate are used. */
gossiped gossip_train(const data *d, const schedule *s, const gossip_options *o);

/* If a codec adds to each value z an independent error of variance noise * z^2, differences between the models of DCD
 * die out without gradients if the result is below 1, and grow if it is above: noise * the mean of (1 - k) / (1 + k)
 * over the eigenvalues k of W. For graphs whose nodes are all alike. */
double gossip_growth(size_t count, const gossip_options *o, double noise);
#endif
