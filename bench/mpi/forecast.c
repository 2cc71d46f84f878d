/* SPDX-License-Identifier: MIT
 *
 * tlc-sim has servers apart. Here they may be workers, too: then they send nothing to themselves, and share the link of
 * the worker, which is full duplex: a push goes out while pushes come in.
 */
#include "forecast.h"
#include "../lib/explain.h"
#include "../sim/drive.h"
#include "../sim/sim_sources.h"
#include "../sim/warm.h"
#include <math.h>
#include <string.h>

static bool measure(const way_options *o, const forecast_options *f, drive_result *measured, char *why)
{
    const mpi_options *all = o->all;
    const drive_options d = {.layout = {.kind = o->kind.kind,
                                        .model = o->model,
                                        .codec = o->codec,
                                        .ranks = o->workers,
                                        .servers = o->servers,
                                        .owners = o->kind.owners,
                                        .graph = o->kind.graph,
                                        .isa = all->isa,
                                        .seed = all->source.seed},
                             .from = o->from,
                             .warmup = all->warmup,
                             .rounds = all->rounds,
                             .memory = sim_memory(),
                             .advice = "--no-predict leaves the prediction out",
                             .cache = f->cache};
    char reason[WHY_SIZE];

    if (source_is_drawn(o->from) && !warm_residuals(o->from, o->codec, all->isa, all->source.seed, why))
        return false;
    return drive_run(&d, measured, reason) || explain(why, "prediction: %s: %s", o->codec, reason);
}

/* All ranks call at once and share the cores; a few servers share them less. */
static void share_cores(const way_options *o, const forecast_options *f, model_phase *p)
{
    double servers = f->share * (double)o->servers / (double)f->ranks;

    p->rank.codec *= f->share;
    p->server.codec *= servers > 1 ? servers : 1;
}

/* The link of a server that is a worker, too: without its messages to itself. */
static void share_links(const way_options *o, const forecast_options *f, model_phase *p)
{
    double workers = (double)o->workers, servers = (double)o->servers;

    if (!o->servers || o->workers + o->servers <= f->ranks)
        return;
    p->server.in *= (workers - 1) / workers;
    p->server.out *= (workers - 1) / workers;
    if (o->servers == f->ranks) {
        p->rank.out *= (servers - 1) / servers;
        p->rank.in *= (servers - 1) / servers;
    }
}

/* All push floats, then all pull them. */
static void push_pull(const way_options *o, const forecast_options *f, model_input *in)
{
    double servers = (double)(o->servers ? o->servers : f->ranks), bytes = in->float_bytes;
    double all = (double)o->workers * bytes / servers;
    way_options served = *o;

    served.servers = (size_t)servers;
    in->phases = 2;
    in->phase[0] = (model_phase){.rank = {.out = bytes}, .server = {.in = all}};
    in->phase[1] = (model_phase){.rank = {.in = bytes}, .server = {.out = all}};
    share_links(&served, f, &in->phase[0]);
    share_links(&served, f, &in->phase[1]);
}

static double predict(const way_options *o, const model_input *in)
{
    const model_output out = model_predict(in);
    const model_time *time = o->method == &way_of_floats   ? &out.ring
                             : o->method == &way_of_halves ? &out.ring_halves
                                                           : &out.time;

    return o->handles == 1 ? time->step : time->overlapped;
}

bool forecast(const way_options *o, const forecast_options *f, double *seconds, char *why)
{
    const mpi_options *all = o->all;
    model_input in = {.rank = all->link,
                      .server = all->link,
                      .site = all->link,
                      .latency = all->latency,
                      .compute = all->compute,
                      .ranks = o->workers,
                      .float_bytes = (double)o->model->values * sizeof(float)};
    drive_result measured;

    *seconds = NAN;
    if (all->link.up <= 0 || o->workers < MIN_RANKS)
        return true;
    if (o->method == &way_of_codec) {
        if (!measure(o, f, &measured, why))
            return false;
        in.phases = o->kind.kind->phase_count;
        memcpy(in.phase, measured.phase, sizeof in.phase);
        for (size_t i = 0; i < in.phases; i++) {
            share_cores(o, f, &in.phase[i]);
            share_links(o, f, &in.phase[i]);
        }
    } else if (o->method == &way_of_push_pull) {
        push_pull(o, f, &in);
    }
    *seconds = predict(o, &in);
    return true;
}
