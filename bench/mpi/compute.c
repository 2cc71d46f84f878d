/* SPDX-License-Identifier: MIT */
#include "compute.h"
#include "../measure.h"

double compute_share(const mpi_options *o, const shape_list *model, size_t i)
{
    double share = o->even ? 1 / (double)model->count : (double)model->shapes[i].n / (double)model->values;

    return o->compute * share;
}

void compute_for(double seconds)
{
    enum { VALUES = 64 };
    const double end = measure_now() + seconds;
    volatile float kept = 1;
    float values[VALUES];

    if (seconds <= 0)
        return;
    for (size_t i = 0; i < VALUES; i++)
        values[i] = kept;
    while (measure_now() < end) {
        for (size_t i = 0; i < VALUES; i++)
            values[i] = 0.5f * values[i] + 0.5f;
    }
    kept = values[0];
}
