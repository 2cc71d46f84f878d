/* SPDX-License-Identifier: MIT
 *
 * Three optimisers with their usual constants. An optimiser keeps a state for each parameter. The learning rate falls
 * linearly to 0, or is constant; in a warm-up it is multiplied by a factor that rises linearly to 1.
 *
 * Momentum correction (Lin et al., 2018, Deep Gradient Compression, section 3): the momentum is that of what a rank
 * sends, in place of that of what comes.
 */
#ifndef TRAIN_OPTIMISER_H
#define TRAIN_OPTIMISER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum optimiser_kind { MOMENTUM, RMSPROP, ADAM } optimiser_kind;

typedef struct optimiser {
    optimiser_kind kind;
    float rate;    /* of the first step, without a warm-up */
    bool constant; /* so is that of all steps */
    size_t n;
    size_t steps;   /* after which the rate is 0 */
    size_t warmup;  /* steps in which it rises; 0: there is no warm-up */
    size_t done;    /* steps that were begun */
    float momentum; /* of MOMENTUM */
    bool corrected; /* MOMENTUM: `mean` is the velocity of what this rank sends; parameters move by what comes alone */
    float *mean;    /* momentum, Adam: of the gradients (of momentum their sum) */
    float *square;  /* RMSprop, Adam: mean of the squared gradients */
} optimiser;

bool optimiser_open(optimiser *o, optimiser_kind kind, float rate, size_t n, size_t steps, char *why);
void optimiser_close(optimiser *o);

/* Begins a step: then the parameters change, each once. */
void optimiser_begin(optimiser *o);

/* Changes parameters first .. first + n - 1, which model points to, by their gradients. */
void optimiser_range(const optimiser *o, size_t first, size_t n, const float *gradient, float *model);

/* Momentum correction, of parameters first .. first + n - 1, which gradient points to. What is sent in place of the
 * gradient: the velocity, momentum * mean + gradient. */
void optimiser_correct(const optimiser *o, size_t first, size_t n, float *gradient);

/* After the exchange the velocity that was sent is kept, unless a value of it is not finite: then the exchange has
 * dropped all n. The caller masks it. */
void optimiser_keep(optimiser *o, size_t first, size_t n, const float *velocity);

/* A step of all parameters. */
void optimiser_step(optimiser *o, const float *gradient, float *model);
#endif
