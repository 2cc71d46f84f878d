/* SPDX-License-Identifier: MIT
 *
 * Three optimisers with their usual constants. An optimiser keeps a state for each parameter. The learning rate falls
 * linearly to 0.
 */
#ifndef OPTIMISERS_OPTIMISER_H
#define OPTIMISERS_OPTIMISER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum optimiser_kind { MOMENTUM, RMSPROP, ADAM } optimiser_kind;

typedef struct optimiser {
    optimiser_kind kind;
    float rate; /* of the first step */
    size_t n;
    size_t steps; /* the rate is 0 after so many */
    size_t done;
    float *mean;   /* momentum, Adam: of the gradients (of momentum their sum) */
    float *square; /* RMSprop, Adam: mean of the squared gradients */
} optimiser;

bool optimiser_open(optimiser *o, optimiser_kind kind, float rate, size_t n, size_t steps, char *why);
void optimiser_close(optimiser *o);

/* Changes the model by one step. */
void optimiser_step(optimiser *o, const float *gradient, float *model);
#endif
