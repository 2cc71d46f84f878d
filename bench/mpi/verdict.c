/* SPDX-License-Identifier: MIT */
#include "verdict.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "../lib/gradients.h"
#include "ranks.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* FNV-1a over words of 32 bits. */
static uint64_t digest(const shape_list *model, const float *values)
{
    uint64_t sum = 0xcbf29ce484222325u;

    for (size_t t = 0; t < model->count; t++) {
        for (size_t i = 0; i < model->shapes[t].n; i++) {
            uint32_t word;
            memcpy(&word, values + model->shapes[t].offset + i, sizeof word);
            sum = (sum ^ word) * 0x100000001b3u;
        }
    }
    return sum;
}

static bool same_bits(const way_options *o, const float *result, char *why)
{
    uint64_t own = result ? digest(o->model, result) : 0;
    uint64_t ends[] = {result ? own : UINT64_MAX, result ? ~own : UINT64_MAX};

    MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_MIN, MPI_COMM_WORLD);
    return !result || ends[0] == ~ends[1] || explain(why, "ranks have different results");
}

/* ---- the mean ---------------------------------------------------------------------------------------------------- */

typedef struct sums {
    float *grads;
    double *sum, *magnitude; /* at their offsets */
} sums;

static bool add_workers(const way_options *o, size_t round, sums *s)
{
    size_t room = o->model->room;

    s->grads = channel_buffer(room * sizeof *s->grads);
    s->sum = channel_buffer(room * sizeof *s->sum);
    s->magnitude = channel_buffer(room * sizeof *s->magnitude);
    if (!s->grads || !s->sum || !s->magnitude)
        return false;
    for (size_t worker = 0; worker < o->workers; worker++) {
        gradients_make(o->from, o->model, o->all->source.seed, worker, round, s->grads);
        for (size_t i = 0; i < room; i++) {
            s->sum[i] += (double)s->grads[i];
            s->magnitude[i] += fabs((double)s->grads[i]);
        }
    }
    return true;
}

static bool near_tensor(const way_options *o, const sums *s, const shape *t, const float *result, char *why)
{
    double workers = (double)o->workers, least, error = o->method->error(o, &least);

    for (size_t i = t->offset; i < t->offset + t->n; i++) {
        double mean = s->sum[i] / workers, off = fabs((double)result[i] - mean);
        if (!(off <= error * s->magnitude[i] / workers + least))
            return explain(why, "value %zu of %s is %g, and the mean is %g", i - t->offset, t->name, (double)result[i],
                           mean);
    }
    return true;
}

static bool is_mean(const way_options *o, size_t round, const float *result, char *why)
{
    sums s = {.grads = NULL};
    double least;
    bool ok = true;

    if (!result || o->method->error(o, &least) <= 0)
        return true;
    if (!add_workers(o, round, &s))
        ok = explain(why, "out of memory");
    for (size_t t = 0; ok && t < o->model->count; t++)
        ok = near_tensor(o, &s, &o->model->shapes[t], result, why);
    free(s.grads);
    free(s.sum);
    free(s.magnitude);
    return ok;
}

bool verdict(const way_options *o, void *way, size_t round, char *why)
{
    const float *result = o->method->result(way);
    char kind[KIND_TEXT], reason[WHY_SIZE];
    bool same = same_bits(o, result, reason), ok;

    ok = same && is_mean(o, round, result, reason) && (!o->method->check || o->method->check(way, reason));
    if (!ok)
        explain(why, "%s %s: %s", o->name ? o->name : sim_kind_text(&o->kind, kind), o->codec ? o->codec : "", reason);
    return ranks_agree(ok, why);
}
