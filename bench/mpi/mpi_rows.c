/* SPDX-License-Identifier: MIT */
#include "mpi_rows.h"
#include "../lib/explain.h"
#include "../lib/fleet.h"
#include "../lib/machine.h"
#include "../lib/runs.h"
#include "forecast.h"
#include "ranks.h"
#include <math.h>
#include <stdlib.h>

enum { FIRST_PUSH_PULL = 2 }; /* after floats and halves */

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

static mpi_row *append(mpi_rows *list, source *from, size_t servers)
{
    mpi_row *row = &list->rows[list->count++];
    bool apart = servers && list->o->apart;

    *row = (mpi_row){.way = {.handles = 1,
                             .workers = apart ? list->ranks - servers : list->ranks,
                             .servers = servers,
                             .all = list->o,
                             .model = list->model,
                             .from = from},
                     .own_run = true,
                     .predicted = NAN};
    return row;
}

static void add_floats(mpi_rows *list, const way_method *method, const char *name, source *from, size_t servers)
{
    mpi_row *row = append(list, from, servers);

    row->way.method = method;
    row->way.name = name;
}

/* The push and pull of floats with `servers` of them. Without servers each rank has a part, as if all were servers. */
static size_t floats_of(const mpi_rows *list, size_t servers)
{
    size_t i = 0;

    servers = servers == list->ranks ? 0 : servers;
    while (i < list->count && (list->rows[i].way.method != &way_of_push_pull || list->rows[i].way.servers != servers))
        i++;
    return i;
}

static void add_codec(mpi_rows *list, const sim_kind *kind, const char *codec, size_t handles, source *from,
                      bool own_run)
{
    mpi_row *row = append(list, from, kind->servers);

    row->way.method = &way_of_codec;
    row->way.kind = *kind;
    row->way.codec = codec;
    row->way.handles = handles;
    row->own_run = own_run;
    row->floats = floats_of(list, kind->servers);
}

static void plan_codecs(mpi_rows *list, source *sources, size_t source_count)
{
    const mpi_options *o = list->o;
    bool own = true;

    for (size_t k = 0; k < o->choice.kind_count; k++) {
        for (size_t c = 0; c < o->choice.codec_count; c++) {
            size_t run = source_count > 1 ? runs_choose(sources, source_count, o->choice.codecs[c], &own) : 0;
            for (size_t h = 0; h < o->handles.count && sim_kind_takes(&o->choice.kinds[k], o->choice.codecs[c]); h++)
                add_codec(list, &o->choice.kinds[k], o->choice.codecs[c], o->handles.items[h], &sources[run], own);
        }
    }
}

bool mpi_rows_plan(mpi_rows *list, source *sources, size_t source_count, char *why)
{
    const mpi_options *o = list->o;
    size_t most = 2 + o->choice.kind_count * (1 + o->choice.codec_count * o->handles.count);

    list->ranks = ranks_count();
    list->share = ranks_on_core(o->from_network);
    list->count = 0;
    list->rows = calloc(most, sizeof *list->rows);
    if (!list->rows)
        return explain(why, "out of memory");
    add_floats(list, &way_of_floats, "floats", sources, 0);
    add_floats(list, &way_of_halves, "halves", sources, 0);
    for (size_t k = 0; k < o->choice.kind_count; k++) {
        size_t servers = o->choice.kinds[k].servers;
        if (floats_of(list, servers) == list->count)
            add_floats(list, &way_of_push_pull, "push-pull", sources, servers == list->ranks ? 0 : servers);
    }
    for (size_t i = 0; i < list->count; i++)
        list->rows[i].floats = floats_of(list, i < FIRST_PUSH_PULL ? list->rows[FIRST_PUSH_PULL].way.servers
                                                                   : list->rows[i].way.servers);
    plan_codecs(list, sources, source_count);
    return true;
}

void mpi_rows_free(mpi_rows *list)
{
    free(list->rows);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

bool mpi_rows_measure(mpi_rows *list, const char *program, char *why)
{
    way_options *ways = calloc(list->count, sizeof *ways);
    race_result *results = calloc(list->count, sizeof *results);
    bool ok = ranks_agree((ways && results) || explain(why, "out of memory"), why);

    for (size_t i = 0; ok && i < list->count; i++)
        ways[i] = list->rows[i].way;
    ok = ok && race_run(ways, list->count, program, results, why);
    for (size_t i = 0; ok && i < list->count; i++)
        list->rows[i].measured = results[i];
    free(ways);
    free(results);
    return ok;
}

bool mpi_rows_predict(mpi_rows *list, char *why)
{
    forecast_options f = {.share = list->share, .ranks = list->ranks};
    machine m;
    bool ok = true;

    machine_ask(&m);
    f.cache = m.cache;
    for (size_t i = 0; ok && i < list->count; i++)
        ok = forecast(&list->rows[i].way, &f, &list->rows[i].predicted, why);
    return ok;
}

double mpi_rows_cap(const shape_list *model)
{
    size_t raw = 0;

    for (size_t i = 0; i < model->count; i++)
        raw += fleet_is_small(&model->shapes[i]) ? model->shapes[i].n : 0;
    return raw ? (double)model->values / (double)raw : INFINITY;
}

double mpi_row_exchange(const mpi_row *row)
{
    return row->measured.step.median - row->way.all->compute;
}

double mpi_row_speedup(const mpi_rows *list, const mpi_row *row)
{
    return mpi_row_exchange(&list->rows[row->floats]) / mpi_row_exchange(row);
}

const char *mpi_row_kind(const mpi_row *row, char *buffer)
{
    if (!row->way.name)
        return sim_kind_text(&row->way.kind, buffer);
    if (row->way.servers)
        snprintf(buffer, KIND_TEXT, "%s:%zu", row->way.name, row->way.servers);
    else
        snprintf(buffer, KIND_TEXT, "%s", row->way.name);
    return buffer;
}
