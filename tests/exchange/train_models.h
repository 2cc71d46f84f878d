/* SPDX-License-Identifier: MIT
 *
 * What the training tests train: logistic regression and a perceptron, each with one output, and drawn data with labels
 * of 1 and -1. The loss of a row is log(1 + exp(-label * output)).
 *
 * Only +, -, *, / and sqrt are used, which round alike everywhere. So losses are the same on all machines.
 */
#ifndef TLC_TEST_TRAIN_MODELS_H
#define TLC_TEST_TRAIN_MODELS_H

#include "../support/support.h"

enum { MOST_TENSORS = 4, MOST_VALUES = 1024, MOST_RANKS = 16, SEEDS = 5 };

/* The tensors lie one after the other in an array of `values` floats: the weights, or a gradient. */
typedef struct model {
    const char *name;
    size_t inputs, hidden; /* hidden 0: logistic regression */
    size_t values, count;
    struct {
        const char *name;
        size_t first, n;
    } tensors[MOST_TENSORS];
} model;
extern const model logistic, perceptron;

/* Every rank has rows of its own. Their labels follow a teacher of its own, which is like that of the others in part.
 * So the gradients of the ranks are far from 0 where their mean is 0, as in federated training. */
typedef struct data {
    const model *m;
    size_t ranks, rows; /* of each rank */
    float *x;           /* ranks * rows * inputs */
    float *label;       /* ranks * rows */
} data;
data data_draw(const model *m, size_t ranks, size_t rows, uint64_t seed);
void data_free(data *d);

/* The data of all seeds. */
typedef struct draws {
    data of[SEEDS];
    size_t seeds;
} draws;
/* 1 with TLC_TEST_QUICK, SEEDS with TLC_TEST_ALL_SEEDS=1, else `seeds`. */
draws draws_open(const model *m, size_t ranks, size_t rows, size_t seeds);
void draws_close(draws *d);

/* The weights that a training starts with. */
void model_start(const model *m, float *weights);
/* The gradient of the mean loss over `count` rows of a rank, from row `first` on; row 0 follows the last one. */
void model_gradient(const data *d, size_t rank, size_t first, size_t count, const float *weights, float *gradient);
/* The mean loss over all rows of all ranks. */
double model_loss(const data *d, const float *weights);
#endif
