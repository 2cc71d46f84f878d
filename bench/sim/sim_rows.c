/* SPDX-License-Identifier: MIT */
#include "sim_rows.h"
#include "../lib/explain.h"
#include "../lib/runs.h"
#include "warm.h"
#include <stdlib.h>
#include <string.h>

/* What a row is about, without its link. */
typedef struct subject {
    const shape_list *model;
    const char *codec;
    sim_kind kind;
    size_t ranks;
} subject;

static sim_row *append(sim_rows *list)
{
    if (list->count == list->slots) {
        size_t slots = list->slots ? list->slots * 2 : 64;
        sim_row *rows = realloc(list->rows, slots * sizeof *rows);
        if (!rows)
            return NULL;
        list->rows = rows;
        list->slots = slots;
    }
    return &list->rows[list->count++];
}

void sim_rows_free(sim_rows *list)
{
    free(list->rows);
}

static model_input input_of(const sim_options *o, const subject *s, const drive_result *measured, size_t link)
{
    model_input in = {.phases = s->kind.kind->phase_count,
                      .rank = o->links[link],
                      .server = o->server_link.up > 0 ? o->server_link : o->links[link],
                      .site = o->site_link.up > 0 ? o->site_link : o->links[link],
                      .latency = o->latency,
                      .site_latency = o->site_latency < 0 ? o->latency : o->site_latency,
                      .compute = o->compute,
                      .ranks = s->ranks,
                      .servers = s->kind.servers,
                      .float_bytes = (double)s->model->values * sizeof(float)};

    memcpy(in.phase, measured->phase, sizeof in.phase);
    return in;
}

static bool measure(const sim_options *o, const sim_input *in, const subject *s, const source *from,
                    drive_result *measured, char *why)
{
    const drive_options d = {.layout = {.kind = s->kind.kind,
                                        .model = s->model,
                                        .codec = s->codec,
                                        .ranks = s->ranks,
                                        .servers = s->kind.servers,
                                        .owners = s->kind.owners,
                                        .site = s->kind.site,
                                        .graph = s->kind.graph,
                                        .isa = o->isa,
                                        .seed = o->source.seed},
                             .from = from,
                             .warmup = o->warmup,
                             .rounds = o->rounds,
                             .memory = in->memory,
                             .memory_text = o->memory_text,
                             .advice = "--memory allows more",
                             .cache = in->cache};
    char reason[WHY_SIZE], kind[KIND_TEXT];

    return drive_run(&d, measured, reason) || explain(why, "%s, %s of %zu ranks, %s: %s", s->model->model,
                                                      sim_kind_text(&s->kind, kind), s->ranks, s->codec, reason);
}

static bool add_rows(sim_rows *list, const sim_options *o, const sim_input *in, const subject *s, char *why)
{
    bool own = true;
    source *from = &in->sources[in->count > 1 ? runs_choose(in->sources, in->count, s->codec, &own) : 0];
    drive_result measured;
    char kind[KIND_TEXT], what[64];

    snprintf(what, sizeof what, "%s of %zu ranks", sim_kind_text(&s->kind, kind), s->ranks);
    program_progress(o->quiet, list->count / o->link_count + 1, list->total, s->codec, s->model->model, what);
    if ((!o->traces && !warm_residuals(from, s->codec, o->isa, o->source.seed, why)) ||
        !measure(o, in, s, from, &measured, why))
        return false;
    for (size_t link = 0; link < o->link_count; link++) {
        sim_row *row = append(list);
        if (!row)
            return explain(why, "out of memory");
        *row = (sim_row){.model = s->model,
                         .kind = s->kind,
                         .codec = s->codec,
                         .run = from->run ? from : NULL,
                         .own_run = own,
                         .measured = measured,
                         .in = input_of(o, s, &measured, link)};
        row->out = model_predict(&row->in);
    }
    return true;
}

bool sim_rows_compare(const sim_row *a, const sim_row *b)
{
    return a->model == b->model && a->in.ranks == b->in.ranks && a->in.rank.up == b->in.rank.up &&
           a->in.rank.down == b->in.rank.down;
}

/* Rows were made in the order of measuring, and links are the last to change. Now they become the first. */
static bool sort_by_link(sim_rows *list, size_t first, size_t links, char *why)
{
    size_t count = list->count - first, measured = count / links;
    sim_row *sorted = count ? malloc(count * sizeof *sorted) : NULL;

    if (!sorted)
        return !count || explain(why, "out of memory");
    for (size_t i = 0; i < count; i++)
        sorted[i % links * measured + i / links] = list->rows[first + i];
    memcpy(list->rows + first, sorted, count * sizeof *sorted);
    free(sorted);
    return true;
}

/* How many exchanges are run. */
static size_t count_runs(const sim_options *o)
{
    size_t count = 0;

    for (size_t k = 0; k < o->choice.kind_count; k++) {
        for (size_t c = 0; c < o->choice.codec_count; c++)
            count += sim_kind_takes(&o->choice.kinds[k], o->choice.codecs[c]);
    }
    return count * o->shape_count * o->ranks.count;
}

bool sim_rows_add(sim_rows *list, const sim_options *o, const sim_input *in, char *why)
{
    bool ok = true;

    list->total = count_runs(o);
    for (size_t m = 0; ok && m < o->shape_count; m++) {
        for (size_t r = 0; ok && r < o->ranks.count; r++) {
            size_t first = list->count;
            for (size_t k = 0; ok && k < o->choice.kind_count; k++) {
                for (size_t c = 0; ok && c < o->choice.codec_count; c++) {
                    const subject s = {&in->models[m], o->choice.codecs[c], o->choice.kinds[k], o->ranks.items[r]};
                    if (sim_kind_takes(&s.kind, s.codec))
                        ok = add_rows(list, o, in, &s, why);
                }
            }
            ok = ok && sort_by_link(list, first, o->link_count, why);
        }
    }
    program_progress_end(o->quiet);
    return ok;
}
