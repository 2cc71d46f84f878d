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

/* Makes room for some more. */
static bool reserve(sim_rows *list, size_t more)
{
    if (list->count + more > list->slots) {
        size_t slots = list->slots * 2 + more;
        sim_row *rows = realloc(list->rows, slots * sizeof *rows);
        if (!rows)
            return false;
        list->rows = rows;
        list->slots = slots;
    }
    return true;
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
                      .device = o->device,
                      .latency = o->latency,
                      .site_latency = o->site_latency < 0 ? o->latency : o->site_latency,
                      .compute = o->compute * (double)(o->local_steps ? o->local_steps : 1),
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
                                        .on_device = o->device_text != NULL,
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

static bool add_rows(sim_rows *list, const sim_options *o, const sim_input *in, const subject *s,
                     const sim_sources *set, char *why)
{
    bool own = true;
    source *from = &set->sources[set->sources->run ? runs_choose(set->sources, set->count, s->codec, &own) : 0];
    drive_result measured;
    char kind[KIND_TEXT], what[64];

    snprintf(what, sizeof what, "%s of %zu ranks", sim_kind_text(&s->kind, kind), s->ranks);
    program_progress(o->quiet, list->count / o->link_count + 1, list->total, s->codec, s->model->model, what);
    if ((source_is_drawn(from) && !warm_residuals(from, s->codec, o->isa, o->source.seed, why)) ||
        !measure(o, in, s, from, &measured, why))
        return false;
    if (!reserve(list, o->link_count))
        return explain(why, "out of memory");
    for (size_t link = 0; link < o->link_count; link++) {
        sim_row *row = &list->rows[list->count++];
        *row = (sim_row){.model = s->model,
                         .kind = s->kind,
                         .codec = s->codec,
                         .from = from,
                         .own_run = own,
                         .local_steps = o->local_steps,
                         .device = o->device_text,
                         .measured = measured,
                         .in = input_of(o, s, &measured, link)};
        row->out = model_predict(&row->in);
    }
    return true;
}

/* Whether two rows answer the same question. */
static bool compare(const sim_row *a, const sim_row *b)
{
    return a->model == b->model && a->in.ranks == b->in.ranks && a->in.rank.up == b->in.rank.up &&
           a->in.rank.down == b->in.rank.down;
}

const sim_row *sim_rows_best(const sim_rows *list, size_t first, size_t *end)
{
    const sim_row *best = &list->rows[first];

    for (*end = first; *end < list->count && compare(&list->rows[first], &list->rows[*end]); ++*end) {
        const sim_row *row = &list->rows[*end];
        if (!row->beside && row->out.time.step < best->out.time.step)
            best = row;
    }
    return best;
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

/* Whether a row is one of this subject. */
static bool is_of(const sim_row *row, const subject *s)
{
    char a[KIND_TEXT], b[KIND_TEXT];

    return row->codec == s->codec && !strcmp(sim_kind_text(&row->kind, a), sim_kind_text(&s->kind, b));
}

/* Rows first .. are those of a model and of a number of ranks, `of_link` for each link. The fastest of each link comes
 * once more behind them, with drawn values. Each codec and kind is measured once. */
static bool add_drawn(sim_rows *list, const sim_options *o, const sim_input *in, size_t first, char *why)
{
    size_t links = o->link_count, recorded = list->count - first, of_link = recorded / links;
    sim_rows drawn = {.count = 0};
    bool ok = reserve(list, links) || explain(why, "out of memory");

    for (size_t link = 0; ok && of_link && link < links; link++) {
        size_t end, at = 0, place = first + link * (of_link + 1);
        const sim_row *best = sim_rows_best(list, place, &end);
        const subject s = {best->model, best->codec, best->kind, best->in.ranks};
        while (at < drawn.count && !is_of(&drawn.rows[at], &s))
            at += links;
        ok = at < drawn.count || add_rows(&drawn, o, in, &s, &in->drawn, why);
        if (ok) {
            memmove(&list->rows[end + 1], &list->rows[end], (list->count - end) * sizeof *list->rows);
            list->rows[end] = drawn.rows[at + link];
            list->rows[end].beside = true;
            list->count++;
        }
    }
    sim_rows_free(&drawn);
    return ok;
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
            const sim_sources *set = &in->set[in->use[m]];
            size_t first = list->count;
            for (size_t k = 0; ok && k < o->choice.kind_count; k++) {
                for (size_t c = 0; ok && c < o->choice.codec_count; c++) {
                    const subject s = {&in->models[m], o->choice.codecs[c], o->choice.kinds[k], o->ranks.items[r]};
                    if (sim_kind_takes(&s.kind, s.codec))
                        ok = add_rows(list, o, in, &s, set, why);
                }
            }
            ok = ok && sort_by_link(list, first, o->link_count, why) &&
                 (source_is_drawn(set->sources) || add_drawn(list, o, in, first, why));
        }
    }
    program_progress_end(o->quiet);
    return ok;
}
