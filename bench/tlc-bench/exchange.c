/* SPDX-License-Identifier: MIT */
#include "exchange.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include "../lib/runs.h"
#include "trial.h"
#include <string.h>

typedef struct series {
    row_list *list;
    const options *o;
    const exchange_input *in;
    const shape_list *model;
    const char *codec;
    bool assume_finite;
} series;

static void describe(report_row *row, const trial_options *t, const trial_result *r)
{
    size_t steps = r->steps, machines = t->fleet.ranks + t->fleet.servers;
    double whole = (double)r->whole_bytes;

    row->rounds = steps;
    row->verified.isa = r->isa;
    row->verified.feedback = r->feedback;
    row->verified.values = (uint64_t)t->model->values * steps;
    row->verified.input_bytes = row->verified.values * sizeof(float);
    row->verified.frame_bytes = r->whole_bytes;
    row->exchange.mean = (double)r->sent_bytes / (double)machines / whole;
    row->exchange.busiest = (double)r->busiest_bytes / whole;
    row->exchange.framing = (double)r->message_bytes / (double)r->frame_bytes - 1;
    row->exchange.other = r->other;
    row->exchange.other_best = r->other_best;
    row->time[TIME_STEP] = r->step;
    row->time[TIME_CODECS] = r->codec;
    row->time[TIME_ADD_MANY] = r->add;
}

static bool add_row(const series *s, algorithm a, size_t ranks, size_t owners, char *why)
{
    report_row *row = rows_append(s->list);
    bool own = true;
    const source *sources = s->in->sources;
    const source *from = &sources[s->in->count > 1 ? runs_choose(sources, s->in->count, s->codec, &own) : 0];
    const trial_options t = {.fleet = {.algorithm = a,
                                       .ranks = ranks,
                                       .servers = a == SERVER,
                                       .owners = owners,
                                       .codec = s->codec,
                                       .assume_finite = s->assume_finite,
                                       .isa = s->o->channel.isa,
                                       .seed = s->o->channel.seed},
                             .from = from,
                             .model = s->model,
                             .warmup = s->o->warmup,
                             .seconds = s->o->seconds,
                             .cache = s->in->cache};
    trial_result result;
    char what[64], reason[WHY_SIZE];

    if (!row)
        return explain(why, "out of memory");
    row->kind = ROW_EXCHANGE;
    row->name = s->codec;
    row->model = s->model->model;
    row->run = from->run ? from : NULL;
    row->own_run = own;
    row->assume_finite = s->assume_finite;
    row->steps = from->steps;
    row->values = s->model->values;
    row->exchange.algorithm = a == ALL_REDUCE ? "all-reduce" : a == GATHER ? "gather" : "server";
    row->exchange.ranks = ranks;
    row->exchange.owners = a == GATHER ? 0 : a == SERVER ? 1 : owners ? owners : ranks;
    snprintf(what, sizeof what, "%s of %zu ranks", row->exchange.algorithm, ranks);
    program_progress(s->o->quiet, s->list->count, s->list->total, s->codec, s->model->model, what);
    if (!trial_run(&t, &result, reason))
        return explain(why, "%s, %s, %s: %s", s->model->model, what, s->codec, reason);
    describe(row, &t, &result);
    return true;
}

/* All owners, and then as many as --owners allows. */
static bool add_all_reduce(const series *s, size_t ranks, char *why)
{
    bool ok = add_row(s, ALL_REDUCE, ranks, 0, why);

    for (size_t i = 0; ok && i < s->o->owners.count; i++) {
        if (s->o->owners.items[i] < ranks)
            ok = add_row(s, ALL_REDUCE, ranks, s->o->owners.items[i], why);
    }
    return ok;
}

static bool add_series(const series *s, char *why)
{
    static const algorithm algorithms[] = {ALL_REDUCE, GATHER, SERVER};
    const size_list *ranks = &s->o->ranks;
    bool ok = true;

    for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++) {
        for (size_t i = 0; ok && (s->o->algorithms & algorithms[a]) && i < ranks->count; i++)
            ok = algorithms[a] == ALL_REDUCE ? add_all_reduce(s, ranks->items[i], why)
                                             : add_row(s, algorithms[a], ranks->items[i], 0, why);
    }
    return ok;
}

/* How many rows add_series adds. */
static size_t count_series(const options *o)
{
    size_t count = 0;

    if (o->algorithms & GATHER)
        count += o->ranks.count;
    if (o->algorithms & SERVER)
        count += o->ranks.count;
    for (size_t i = 0; (o->algorithms & ALL_REDUCE) && i < o->ranks.count; i++) {
        count++;
        for (size_t k = 0; k < o->owners.count; k++)
            count += o->owners.items[k] < o->ranks.items[i];
    }
    return count;
}

bool exchange_rows(row_list *list, const options *o, const exchange_input *in, char *why)
{
    bool ok = true;

    list->total = o->shape_count * o->codec_count * (1 + o->assume_finite) * count_series(o);
    for (size_t m = 0; ok && m < o->shape_count; m++) {
        for (size_t i = 0; ok && i < o->codec_count; i++) {
            series s = {list, o, in, &in->models[m], o->codecs[i].codec, false};
            ok = add_series(&s, why);
            s.assume_finite = true;
            ok = ok && (!o->assume_finite || add_series(&s, why));
        }
    }
    program_progress_end(o->quiet);
    return ok;
}
