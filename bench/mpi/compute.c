/* SPDX-License-Identifier: MIT */
#include "compute.h"
#include "../lib/measure.h"
#include <time.h>

compute_clock compute_begin(const mpi_options *o, const shape_list *model)
{
    double now = measure_now();

    return (compute_clock){.o = o, .model = model, .start = now, .left = now};
}

static double share(const compute_clock *c, size_t i)
{
    const shape_list *model = c->model;

    return c->o->compute * (c->o->even ? 1 / (double)model->count : (double)model->shapes[i].n / (double)model->values);
}

/* Multiplies and adds. */
static void work_until(double end)
{
    enum { VALUES = 64 };
    volatile float kept = 1;
    float values[VALUES];

    for (size_t i = 0; i < VALUES; i++)
        values[i] = kept;
    while (measure_now() < end) {
        for (size_t i = 0; i < VALUES; i++)
            values[i] = 0.5f * values[i] + 0.5f;
    }
    kept = values[0];
}

static void sleep_until(double end)
{
    double seconds = end - measure_now();
    struct timespec pause = {.tv_sec = 0};

    if (seconds <= 0)
        return;
    pause.tv_sec = (time_t)seconds;
    pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
    (void)nanosleep(&pause, NULL);
}

void compute_tensor(compute_clock *c, size_t i)
{
    double end;

    if (c->o->compute <= 0)
        return;
    c->others += measure_now() - c->left;
    c->due += share(c, i);
    end = c->start + c->due + c->others;
    (c->o->offload ? sleep_until : work_until)(end);
    c->left = c->o->offload ? measure_now() : end;
}
