/* SPDX-License-Identifier: MIT
 *
 * The training of one rank: its data, its gradients, its optimiser. What ranks say to each other is in sync.h.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "deal.h"
#include "train_options.h"

/* Of this rank. */
typedef struct trainer_totals {
    uint64_t first;                      /* the step at which they begin: 0, or where a run went on with other ranks */
    double sent, received;               /* bytes */
    double codec, wait, compute, rounds; /* seconds; rounds: of all */
    double loss;                         /* sum over batches, since it was last reported */
    uint64_t batches;                    /* of this sum */
    uint64_t skipped;                    /* steps that did not happen, as a gradient was not finite */
} trainer_totals;

typedef struct trainer {
    const train_options *o;
    const image_set *images;
    int rank, ranks;
    size_t step; /* steps that have ended */
    classifier model;
    deal deal;
    optimiser optimiser; /* of the mean gradient, of the parts of this server or owner, or of local steps; with momentum
                            correction also the velocity of this rank */
    syncer sync;
    float *weights;        /* the same on all ranks, but for gossip */
    float *local;          /* the model of local steps; of gossip where the rank moves to */
    float *gradient;       /* and what is sent */
    float *mean;           /* what comes */
    uint32_t *index;       /* images of a batch */
    bool *in;              /* the ranks that are in the round */
    trainer_totals totals; /* without what trainer_count adds */
    trainer_totals before; /* sent, received, codec and wait of a run that this one goes on with */
} trainer;

/* On all ranks of MPI_COMM_WORLD, as are all calls below. */
bool trainer_open(trainer *t, const train_options *o, const image_set *images, char *why);
void trainer_close(trainer *t);

/* local_steps steps and an exchange. false: this rank cannot go on, and others may wait for it. */
bool trainer_round(trainer *t, char *why);

/* After the last round: what residuals hold goes as floats, in a step with gradients or changes of 0. false: as for
 * trainer_round. */
bool trainer_flush(trainer *t, char *why);

/* The totals of this rank as they are now. Not collective. */
trainer_totals trainer_count(const trainer *t);

/* What the training has as its result, in t->mean: the weights, and of gossip the mean of all ranks' weights. */
const float *trainer_result(trainer *t);
#endif
