/* SPDX-License-Identifier: MIT
 *
 * All ranks of a training in one process, with the objects of threelc/exchange.h between them. Every message is given
 * to its receiver; none is lost.
 */
#ifndef TLC_TEST_TRAIN_EXCHANGE_H
#define TLC_TEST_TRAIN_EXCHANGE_H

#include "train_models.h"

typedef enum cluster_kind {
    CLUSTER_SHARDED,  /* all-reduce; ranks own parts of tensors */
    CLUSTER_GATHERED, /* all-reduce with gather */
    CLUSTER_MEANS,    /* two parameter servers, which answer with means */
    CLUSTER_DELTAS,   /* two parameter servers, which have the model, and answer with its changes */
    CLUSTER_GROUPED,  /* all-reduce in sites and between them (bench/sim/groups.h) */
    CLUSTER_KINDS
} cluster_kind;
extern const char *const cluster_names[CLUSTER_KINDS];

typedef struct cluster_options {
    const char *codec; /* of pushes and answers */
    cluster_kind kind;
    int forget; /* the residuals of pushes are set to 0 before each push */
    /* of CLUSTER_GROUPED */
    const char *inside; /* the codec in a site; NULL: `codec` */
    uint32_t sites;     /* 0: 2, if there are two ranks */
} cluster_options;

typedef struct cluster cluster;

/* weights: of the model at the start. */
cluster *cluster_open(const cluster_options *o, const model *m, size_t ranks, const float *weights);
void cluster_close(cluster *c);

/* change = factor * the mean of what the ranks give, as it arrives. All ranks must have received the same bits.
 * given[rank]: the values of the model; NULL: the rank is not in the round. */
void cluster_exchange(cluster *c, const float *const *given, float factor, float *change);

/* Momentum masking of Sparse Binary Compression. */
void cluster_mask(cluster *c, size_t rank, float *momentum);

/* Bytes that a rank has sent, or a server, by their statistics: the mean of all of them. Of CLUSTER_GROUPED: what a
 * rank has sent to others in its site, and to other sites. */
double cluster_rank_sent(const cluster *c);
double cluster_server_sent(const cluster *c);
#endif
