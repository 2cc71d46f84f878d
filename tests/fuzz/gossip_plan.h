/* SPDX-License-Identifier: MIT
 *
 * The nodes that gossip.c drives: made of bytes of the input. They are parties, as those of the exchange.
 */
#ifndef TLC_FUZZ_GOSSIP_PLAN_H
#define TLC_FUZZ_GOSSIP_PLAN_H

#include "exchange_party.h"

enum { MOST_NODES = 4 };

/* A row of W without its zeros. */
typedef struct gossip_row {
    uint32_t neighbour[MOST_NODES];
    double weight[MOST_NODES + 1]; /* the node's own last */
    size_t degree;
} gossip_row;

typedef struct gossip_plan {
    exchange_plan common;
    tlc_gossip_kind kind;
    gossip_row row[MOST_NODES];
    int skewed;    /* node 0 has another weight for the edge to its first neighbour */
    value_way way; /* of the first model */
    uint64_t seed;
} gossip_plan;

/* A graph, a configuration and tensors. Any bytes make valid ones. */
void gossip_plan_read(gossip_plan *plan, fuzz_input *in);

/* May nodes use it? */
int gossip_codec(const codec_case *c);

void node_open(party *p, const gossip_plan *plan, uint32_t index);

/* Where a node moves to: these values, or the mean and an eighth of them; the first ones of each tensor are given. */
typedef struct movement {
    value_way way;
    uint64_t seed;
    int from_mean;
    size_t count;
    float given[4];
} movement;

/* Fills p->grad, and values with it. */
void node_move(party *p, const movement *m, const float **values);

/* Are all values, or those of the model, below this? */
int node_below(const party *p, const float *const *values, float most);
int node_model_below(const party *p, float most);

/* Checks that the model is this. */
void node_require_model(const party *p, const float *const *values);

tlc_outcome node_outcome(const party *p);
int node_told(unsigned nodes); /* is the node at fault, as party_check saw it, one of these? */

/* A number for the model. It is never 0. */
uint64_t node_model(const party *p);

/* Folds models and means. */
void node_fold(const party *p);

/* Checks the means: of its own model and those of the neighbours of the row; NULL: the neighbour is lost. */
void node_require_mean(const party *p, const gossip_row *row, const party *const *neighbours);
#endif
