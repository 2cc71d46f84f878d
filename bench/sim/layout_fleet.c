/* SPDX-License-Identifier: MIT */
#include "layout_fleet.h"
#include "../lib/explain.h"
#include <stdlib.h>

static fleet_options options_of(const layout_options *o, algorithm a)
{
    return (fleet_options){.algorithm = a,
                           .ranks = o->ranks,
                           .servers = o->servers,
                           .owners = o->owners,
                           .one_by_one = o->replay,
                           .codec = o->codec,
                           .isa = o->isa,
                           .seed = o->seed};
}

size_t layout_fleet_memory(const layout_options *o, algorithm a)
{
    const fleet_options options = options_of(o, a);

    return fleet_memory(o->model, &options);
}

void *layout_fleet_open(const layout_options *o, algorithm a, char *why)
{
    const fleet_options options = options_of(o, a);
    fleet *f = malloc(sizeof *f);

    if (!f) {
        explain(why, "out of memory");
        return NULL;
    }
    if (fleet_open(f, o->model, &options, why))
        return f;
    layout_fleet_close(f);
    return NULL;
}

void layout_fleet_close(void *layout)
{
    if (layout)
        fleet_close(layout);
    free(layout);
}

float *layout_fleet_residual(void *layout, size_t rank)
{
    const fleet *f = layout;

    return f->residual[rank];
}

bool layout_fleet_begin(void *layout, char *why)
{
    return fleet_begin(layout, why);
}

size_t layout_fleet_kept(const void *layout)
{
    const fleet *f = layout;

    return f->kept_bytes * f->options.ranks;
}
