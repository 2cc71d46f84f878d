/* SPDX-License-Identifier: MIT
 *
 * The rules of the optimisers. Constants: momentum 0.9; RMSprop 0.99; Adam 0.9 and 0.999; epsilon 1e-8.
 */
#include "optimiser.h"
#include "../../explain.h"
#include <math.h>
#include <stdlib.h>

#define EPSILON 1e-8f

bool optimiser_open(optimiser *o, optimiser_kind kind, float rate, size_t n, size_t steps, char *why)
{
    *o = (optimiser){.kind = kind, .rate = rate, .n = n, .steps = steps};
    o->mean = calloc(n, sizeof *o->mean);
    o->square = calloc(n, sizeof *o->square);
    return (o->mean && o->square) || explain(why, "out of memory");
}

void optimiser_close(optimiser *o)
{
    free(o->mean);
    free(o->square);
}

static void step_momentum(const optimiser *o, float rate, const float *restrict gradient, float *restrict model)
{
    float *restrict mean = o->mean;

    for (size_t i = 0; i < o->n; i++) {
        mean[i] = 0.9f * mean[i] + gradient[i];
        model[i] -= rate * mean[i];
    }
}

static void step_rmsprop(const optimiser *o, float rate, const float *restrict gradient, float *restrict model)
{
    float *restrict square = o->square;

    for (size_t i = 0; i < o->n; i++) {
        square[i] = 0.99f * square[i] + 0.01f * (gradient[i] * gradient[i]);
        model[i] -= rate * gradient[i] / (sqrtf(square[i]) + EPSILON);
    }
}

static void step_adam(const optimiser *o, float rate, const float *restrict gradient, float *restrict model)
{
    float *restrict mean = o->mean, *restrict square = o->square;
    /* both means start from 0; this makes up for it */
    float unbiased_rate = (float)(rate / (1 - pow(0.9, (double)o->done + 1)));
    float unbias = (float)(1 / (1 - pow(0.999, (double)o->done + 1)));

    for (size_t i = 0; i < o->n; i++) {
        mean[i] = 0.9f * mean[i] + 0.1f * gradient[i];
        square[i] = 0.999f * square[i] + 0.001f * (gradient[i] * gradient[i]);
        model[i] -= unbiased_rate * mean[i] / (sqrtf(square[i] * unbias) + EPSILON);
    }
}

void optimiser_step(optimiser *o, const float *gradient, float *model)
{
    float rate = o->rate * (1 - (float)o->done / (float)o->steps);

    switch (o->kind) {
    case MOMENTUM: step_momentum(o, rate, gradient, model); break;
    case RMSPROP: step_rmsprop(o, rate, gradient, model); break;
    case ADAM: step_adam(o, rate, gradient, model); break;
    }
    o->done++;
}
