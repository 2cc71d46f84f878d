/* SPDX-License-Identifier: MIT */
#include "flat.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "compute.h"
#include "ranks.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool flat_open(flat *f, const way_options *o, char *why)
{
    size_t size = o->model->values * sizeof(float);
    bool ok;

    *f = (flat){.o = o, .n = o->model->values};
    if (f->n > INT_MAX) /* the same on all ranks */
        return explain(why, "%s: %zu values are too many for one call of MPI", o->model->model, f->n);
    f->grads = channel_buffer(size);
    f->mean = channel_buffer(size);
    f->out = channel_buffer(o->model->room * sizeof(float));
    ok = f->grads && f->mean && f->out;
    return ranks_agree(ok || explain(why, "out of memory"), why);
}

void flat_close(flat *f)
{
    free(f->grads);
    free(f->mean);
    free(f->out);
}

void flat_take(flat *f, const float *grads)
{
    const shape_list *model = f->o->model;
    float *to = f->grads;

    for (size_t i = 0; i < model->count; to += model->shapes[i].n, i++)
        memcpy(to, grads + model->shapes[i].offset, model->shapes[i].n * sizeof *to);
}

const float *flat_result(flat *f)
{
    const shape_list *model = f->o->model;
    const float *from = f->mean;

    for (size_t i = 0; i < model->count; from += model->shapes[i].n, i++)
        memcpy(f->out + model->shapes[i].offset, from, model->shapes[i].n * sizeof *from);
    return f->out;
}

void flat_compute(const flat *f)
{
    compute_clock c = compute_begin(f->o->all, f->o->model);

    for (size_t i = f->o->model->count; i-- > 0;)
        compute_tensor(&c, i);
}
