/* SPDX-License-Identifier: MIT
 *
 * What the ranks of a training send each other, through libthreelc-mpi: the one part of the trainer that concerns the
 * library. Functions are collective, unless they say otherwise.
 */
#ifndef TRAIN_SYNC_H
#define TRAIN_SYNC_H

#include "classifier.h"
#include <threelc/mpi.h>

typedef enum sync_kind {
    SYNC_MPI, /* MPI_Allreduce of floats, without the library: what the others are compared with */
    SYNC_ALL_REDUCE,
    SYNC_GATHER,
    SYNC_SERVER, /* all ranks are workers, and the last ones are servers, too */
    SYNC_GOSSIP,
    SYNC_OWNERS /* an all-reduce with the optimiser of each part at its owner */
} sync_kind;

/* The optimiser of a server or an owner: the change of values first .. first + n - 1 of the model, from the mean of
 * their gradients. change is 0 before. */
typedef void (*sync_update)(void *arg, size_t first, size_t n, const float *mean, float *change);

typedef struct sync_options {
    sync_kind kind;
    uint32_t servers;
    tlc_graph_kind graph; /* of gossip */
    tlc_gossip_kind algorithm;
    const char *push, *pull; /* codecs; pull NULL: the library chooses */
    bool layers;             /* all-reduce, gather, owners: a handle for each tensor */
    bool floats_too;         /* sync_as_floats will be called */
    uint64_t seed;
    sync_update update; /* of owners, and of servers, whose workers get the means if it is NULL */
    void *arg;
} sync_options;

/* What an owner's optimiser is called with. */
typedef struct sync_owner {
    const struct syncer *s;
    size_t first; /* the first tensor of the handle */
} sync_owner;

typedef struct syncer {
    sync_options o;
    const classifier *model;
    MPI_Comm comm;
    MPI_Comm graph; /* of gossip, if has_graph */
    bool has_graph;
    int rank, ranks;
    size_t handles;
    tlc_mpi *handle[CLASSIFIER_TENSORS]; /* all-reduce, gossip: one, or one for each tensor. Server: the worker, and the
                                            server if this rank is one */
    sync_owner owner[CLASSIFIER_TENSORS]; /* by handle */
    tlc_tensor tensor[CLASSIFIER_TENSORS];
    float *residual;  /* of what this rank sent, `values` floats; 0 where the codec keeps none */
    float *change;    /* of the parts that this server owns, at their places */
    char advice[200]; /* of a pull that starves; else empty */
} syncer;

typedef enum sync_result {
    SYNC_DONE,
    SYNC_SKIPPED, /* a gradient was not finite: the step did not happen, on no rank, or not on all servers */
    SYNC_FAILED   /* why says why */
} sync_result;

/* weights: the model that gossip starts from. The model and what o points to must outlive it. */
bool sync_open(syncer *s, const sync_options *o, const classifier *model, const float *weights, MPI_Comm comm,
               char *why);
void sync_close(syncer *s);

/* From the next step on everything goes as raw, or with the codecs again. Not for gossip. */
bool sync_as_floats(syncer *s, bool on, char *why);

/* Averages values, `values` floats, over the ranks that have some; NULL: this rank has none. out: the mean, or of
 * owners and of servers with `update` the change of the model; 0 where a server skipped the step. Not for gossip. */
sync_result sync_mean(syncer *s, const float *values, float *out, char *why);

/* The same in three parts, with a handle for each tensor: the exchange of a tensor starts as soon as it is known. Not
 * collective: sync_start_tensor and sync_progress send and receive what they can, and do not wait. */
bool sync_start_tensor(syncer *s, size_t tensor, const float *values, float *out, char *why);
void sync_progress(syncer *s);
sync_result sync_wait(syncer *s, char *why);

/* Gossip. Where a local step starts from: the mean of the own model and those of the neighbours. Not collective. */
void sync_gossip_mean(const syncer *s, float *mean);
/* The model of this rank. Not collective. */
void sync_gossip_model(const syncer *s, float *weights);

/* Moves this rank to `moved`; weights: its model then. SYNC_SKIPPED: this rank stayed where it was. */
sync_result sync_gossip_move(syncer *s, const float *moved, float *weights, char *why);

/* momentum[i] = 0 where the last values were sent and taken (SBC, momentum masking). Not collective. */
void sync_mask(syncer *s, float *momentum);

/* Writes the states of the handles, one after the other, to a new block of memory. Not collective. NULL: no memory. */
void *sync_save(const syncer *s, size_t *size);
/* Takes what sync_save wrote: blocks[i] of rank i of a run with `count` ranks, perhaps another number. */
bool sync_load(syncer *s, const tlc_message *blocks, size_t count, char *why);
/* Are the states that ranks loaded of one run? */
bool sync_compare(syncer *s, char *why);

/* Sets all values to 0 that belong to parts of other servers or owners. Not collective. */
void sync_keep_own(const syncer *s, float *values);

/* What was not sent yet: the mean over ranks of the residuals of pushes, and the residuals of answers, `values` floats
 * each. Gossip has none. */
void sync_residuals(syncer *s, double *pushes, double *answers);

/* Sums of squares in the last exchange, over all handles of this rank: {signal, residual} of pushes, then of answers.
 * Not collective. */
void sync_norms(const syncer *s, double squares[4]);

/* Of this rank, since sync_open. struct_size is set. Not collective. */
void sync_stats(const syncer *s, tlc_mpi_stats *stats);
#endif
