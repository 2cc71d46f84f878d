/* SPDX-License-Identifier: MIT
 *
 * Loops of training: who compresses what, and when. All ranks are in one process.
 */
#ifndef QUADRATIC_LOOP_H
#define QUADRATIC_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <threelc/exchange.h>

typedef enum loop_kind {
    LOOP_MEANS,  /* an all-reduce: owners answer with means, and every rank has an optimiser */
    LOOP_GATHER, /* the same without answers: every rank decodes all pushes */
    LOOP_DELTAS  /* owners have the optimiser, and answer with changes of the model, as 3LC's servers (Figure 2) */
} loop_kind;

enum { LOOP_RANKS_MAX = 64 };

typedef struct loop_options {
    loop_kind kind;
    const char *push, *pull; /* codecs; pull NULL: the default of the library */
    size_t ranks;            /* at most LOOP_RANKS_MAX */
    size_t n;                /* values of the model */
    uint64_t seed;
} loop_options;

/* What an optimiser makes of the mean gradient: the change of values first .. first + n - 1 of the model. n floats
 * each. */
typedef void loop_update(void *arg, size_t first, size_t n, const float *mean, float *change);

/* Residuals are those after the last step. */
typedef struct loop_figures {
    double push, answer;             /* 2-norm of the residual over that of what was compressed; 0: no residual */
    double push_bytes, answer_bytes; /* of messages, since the start: of the pushes of rank 0, and of all answers */
} loop_figures;

typedef struct loop {
    loop_options o;
    tlc_allreduce *rank[LOOP_RANKS_MAX];
    float *residual[LOOP_RANKS_MAX]; /* of pushes; NULL: the codec keeps none */
    float *change, *mean;            /* of the model, of the gradients */
    float *delta;                    /* what owners answer with */
    loop_figures figures;
} loop;

/* false: why (WHY_SIZE bytes) says what is wrong. */
bool loop_open(loop *l, const loop_options *o, char *why);
void loop_close(loop *l);

/* A step. gradients[r]: of rank r. model: n floats; all ranks have the same one. */
bool loop_step(loop *l, const float *const *gradients, loop_update *update, void *arg, float *model, char *why);
#endif
