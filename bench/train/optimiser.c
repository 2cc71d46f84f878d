/* SPDX-License-Identifier: MIT
 *
 * The rules of the optimisers. Constants: momentum 0.9, if no other is set; RMSprop 0.99; Adam 0.9 and 0.999;
 * epsilon 1e-8.
 */
#include "optimiser.h"
#include "../lib/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-8f

bool optimiser_open(optimiser *o, optimiser_kind kind, float rate, size_t n, size_t steps, char *why)
{
    *o = (optimiser){.kind = kind, .rate = rate, .n = n, .steps = steps, .momentum = 0.9f};
    o->mean = calloc(n, sizeof *o->mean);
    o->square = calloc(n, sizeof *o->square);
    return (o->mean && o->square) || explain(why, "out of memory");
}

void optimiser_close(optimiser *o)
{
    free(o->mean);
    free(o->square);
}

static void step_momentum(float rate, float momentum, size_t n, float *restrict mean, const float *restrict gradient,
                          float *restrict model)
{
    for (size_t i = 0; i < n; i++) {
        mean[i] = momentum * mean[i] + gradient[i];
        model[i] -= rate * mean[i];
    }
}

static void step_plain(float rate, size_t n, const float *restrict gradient, float *restrict model)
{
    for (size_t i = 0; i < n; i++)
        model[i] -= rate * gradient[i];
}

static void step_rmsprop(float rate, size_t n, float *restrict square, const float *restrict gradient,
                         float *restrict model)
{
    for (size_t i = 0; i < n; i++) {
        square[i] = 0.99f * square[i] + 0.01f * (gradient[i] * gradient[i]);
        model[i] -= rate * gradient[i] / (sqrtf(square[i]) + EPSILON);
    }
}

/* step: from 1 */
static void step_adam(float rate, size_t step, size_t n, float *restrict mean, float *restrict square,
                      const float *restrict gradient, float *restrict model)
{
    /* both means start from 0; this makes up for it */
    const float unbiased_rate = (float)(rate / (1 - pow(0.9, (double)step)));
    const float unbias = (float)(1 / (1 - pow(0.999, (double)step)));

    for (size_t i = 0; i < n; i++) {
        mean[i] = 0.9f * mean[i] + 0.1f * gradient[i];
        square[i] = 0.999f * square[i] + 0.001f * (gradient[i] * gradient[i]);
        model[i] -= unbiased_rate * mean[i] / (sqrtf(square[i] * unbias) + EPSILON);
    }
}

void optimiser_begin(optimiser *o)
{
    o->done++;
}

/* Of the step under way. */
static float rate_now(const optimiser *o)
{
    const float rate = o->constant ? o->rate : o->rate * (1 - (float)(o->done - 1) / (float)o->steps);

    return o->done < o->warmup ? rate * ((float)o->done / (float)o->warmup) : rate;
}

void optimiser_range(const optimiser *o, size_t first, size_t n, const float *gradient, float *model)
{
    const float rate = rate_now(o);
    float *mean = o->mean + first, *square = o->square + first;

    switch (o->kind) {
    case MOMENTUM:
        if (o->corrected)
            step_plain(rate, n, gradient, model);
        else
            step_momentum(rate, o->momentum, n, mean, gradient, model);
        break;
    case RMSPROP: step_rmsprop(rate, n, square, gradient, model); break;
    case ADAM: step_adam(rate, o->done, n, mean, square, gradient, model); break;
    }
}

void optimiser_correct(const optimiser *o, size_t first, size_t n, float *gradient)
{
    const float *velocity = o->mean + first;

    for (size_t i = 0; i < n; i++)
        gradient[i] = o->momentum * velocity[i] + gradient[i];
}

void optimiser_keep(optimiser *o, size_t first, size_t n, const float *velocity)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(velocity[i]))
            return;
    memcpy(o->mean + first, velocity, n * sizeof *velocity);
}

void optimiser_step(optimiser *o, const float *gradient, float *model)
{
    optimiser_begin(o);
    optimiser_range(o, 0, o->n, gradient, model);
}
