/* SPDX-License-Identifier: MIT */
#include "aggregate.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/stages.h>

/* The inputs and their aggregate. */
typedef struct gathering {
    const options *o;
    const char *codec;
    tlc_rounding rounding; /* of the codec, and of the aggregate */
    size_t n, count;       /* values of an input; inputs of this row */
    uint64_t seed;         /* of the aggregator */
    size_t lens[MAX_INPUTS], total;
    void *frames[MAX_INPUTS];
    unsigned char *copy, *dst, *plain; /* total bytes; cap bytes each */
    size_t cap;
    float *sum;
    tlc_ctx *ctx[2]; /* they compress the sum, by tlc_rounding */
} gathering;

/* ---- inputs ----------------------------------------------------------------------------------------------------- */

static bool make_context(const gathering *g, const char *codec, uint64_t seed, tlc_ctx **ctx, char *why)
{
    tlc_config cfg;
    tlc_status status = tlc_config_init(&cfg, sizeof cfg);

    cfg.codec = codec;
    cfg.seed = seed;
    cfg.feedback = 0;
    cfg.checksum = g->o->channel.checksum;
    status = status ? status : tlc_create(ctx, &cfg, g->n);
    return !status || explain(why, "tlc_create: %s", tlc_status_string(status));
}

/* Each sender has a seed of its own. The frame starts at a multiple of 64. */
static bool compress_input(gathering *g, const float *values, size_t i, char *why)
{
    tlc_ctx *ctx = NULL;
    bool ok = make_context(g, g->codec, g->o->channel.seed + 1 + i, &ctx, why);

    if (ok) {
        g->frames[i] = channel_buffer(tlc_bound(ctx));
        ok = g->frames[i] || explain(why, "out of memory");
    }
    if (ok) {
        tlc_status status = tlc_compress(ctx, values, g->frames[i], tlc_bound(ctx), &g->lens[i]);
        ok = !status || explain(why, "tlc_compress: %s", tlc_status_string(status));
    }
    tlc_destroy(ctx);
    return ok;
}

static bool draw_inputs(gathering *g, source *s, size_t count, char *why)
{
    source_options wanted = g->o->source;
    bool ok = true;

    wanted.has_values = true;
    wanted.values = g->n;
    wanted.steps = 1;
    for (size_t i = 0; ok && i < count; i++) {
        program_progress(g->o->quiet, i + 1, count, g->codec, g->o->synthetic, "drawing an input");
        source_free(s);
        ok = source_draw(s, g->o->synthetic, &wanted, why) && compress_input(g, tensor_step(s->tensors, 0), i, why);
        wanted.seed++;
        source_drop_values(s);
    }
    return ok;
}

static bool gathering_open(gathering *g, source *s, size_t count, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};
    char nearest[CODEC_SIZE + 20];
    size_t total = 0;

    if (!draw_inputs(g, s, count, why))
        return false;
    for (size_t i = 0; i < count; i++)
        total += g->lens[i];
    if (tlc_inspect(g->frames[0], g->lens[0], &info))
        return explain(why, "tlc_inspect refuses a frame");
    g->rounding = strstr(g->codec, "rounding=nearest") ? TLC_ROUND_NEAREST : TLC_ROUND_RANDOM;
    if (!make_context(g, info.codec, g->seed, &g->ctx[TLC_ROUND_RANDOM], why))
        return false;
    (void)snprintf(nearest, sizeof nearest, "%s%crounding=nearest", info.codec, strchr(info.codec, ':') ? ',' : ':');
    if (!make_context(g, nearest, g->seed, &g->ctx[TLC_ROUND_NEAREST], why))
        return false;
    g->cap = tlc_bound(g->ctx[g->rounding]);
    g->copy = channel_buffer(total);
    g->dst = channel_buffer(g->cap);
    g->plain = channel_buffer(g->cap);
    g->sum = channel_buffer(g->n * sizeof *g->sum);
    return (g->copy && g->dst && g->plain && g->sum) || explain(why, "out of memory");
}

static void gathering_close(gathering *g)
{
    for (size_t i = 0; i < MAX_INPUTS; i++)
        free(g->frames[i]);
    free(g->copy);
    free(g->dst);
    free(g->plain);
    free(g->sum);
    tlc_destroy(g->ctx[0]);
    tlc_destroy(g->ctx[1]);
}

/* ---- passes ----------------------------------------------------------------------------------------------------- */

static bool pass_copy_frames(const void *subject, int which, char *why)
{
    const gathering *g = subject;
    size_t at = 0;

    (void)which;
    (void)why;
    for (size_t i = 0; i < g->count; at += g->lens[i++])
        memcpy(g->copy + at, g->frames[i], g->lens[i]);
    __asm__ volatile("" ::"r"(g->copy) : "memory"); /* the compiler must not drop the copy */
    return true;
}

static bool aggregate(const gathering *g, tlc_rounding rounding, size_t *len, char *why)
{
    const tlc_natural_aggregate_params params = {.struct_size = sizeof params, .seed = g->seed, .rounding = rounding};
    tlc_message frames[MAX_INPUTS];

    for (size_t i = 0; i < g->count; i++)
        frames[i] = (tlc_message){g->frames[i], g->lens[i]};
    tlc_status status = tlc_natural_aggregate(frames, g->count, &params, g->dst, g->cap, len);

    return !status || explain(why, "tlc_natural_aggregate: %s", tlc_status_string(status));
}

static bool pass_aggregate(const void *subject, int which, char *why)
{
    const gathering *g = subject;
    size_t len;

    (void)which;
    return aggregate(g, g->rounding, &len, why);
}

/* The same without the aggregator. To the nearest it makes the same frame. */
static bool aggregate_plainly(const gathering *g, tlc_rounding rounding, size_t *len, char *why)
{
    tlc_status status = TLC_OK;

    memset(g->sum, 0, g->n * sizeof *g->sum);
    for (size_t i = 0; !status && i < g->count; i++)
        status = tlc_decompress_add(g->frames[i], g->lens[i], 1.0f, g->sum, g->n, NULL);
    if (!status)
        status = tlc_compress(g->ctx[rounding], g->sum, g->plain, g->cap, len);
    return !status || explain(why, "adding and compressing: %s", tlc_status_string(status));
}

static bool pass_plain(const void *subject, int which, char *why)
{
    const gathering *g = subject;
    size_t len;

    (void)which;
    return aggregate_plainly(g, g->rounding, &len, why);
}

/* ---- rows ------------------------------------------------------------------------------------------------------- */

static bool check(const gathering *g, verified *v, char *why)
{
    tlc_frame_info info = {.struct_size = sizeof info};
    size_t len, plain;

    if (!aggregate(g, TLC_ROUND_NEAREST, &len, why) || !aggregate_plainly(g, TLC_ROUND_NEAREST, &plain, why))
        return false;
    if (len != plain || memcmp(g->dst, g->plain, len) != 0)
        return explain(why, "the aggregate is not what adding and compressing give");
    if (!aggregate(g, g->rounding, &len, why))
        return false;
    if (tlc_inspect(g->dst, len, &info))
        return explain(why, "tlc_inspect refuses the aggregate");
    *v = (verified){.isa = tlc_isa_used(g->ctx[g->rounding]), .clipped = info.clipped};
    return true;
}

static bool add_one(row_list *list, const gathering *g, row_kind kind, const char *name, const timing *copy,
                    const timing *own, size_t rounds, const verified *v, char *why)
{
    report_row *row = rows_append(list);

    if (!row)
        return explain(why, "out of memory");
    row->kind = kind;
    row->name = name;
    row->inputs = g->count;
    row->values = g->n;
    row->calls = 1;
    row->gigabytes = (double)g->total * 1e-9;
    row->rounds = rounds;
    row->verified = *v;
    row->time[TIME_MEMCPY] = *copy;
    row->time[TIME_AGGREGATE] = *own;
    return true;
}

static bool add_rows(row_list *list, gathering *g, size_t count, char *why)
{
    const options *o = g->o;
    size_t warmup = o->warmup ? o->warmup - 1 : 0, rounds;
    operation operations[] = {
        {pass_copy_frames, g, 0, 0}, {pass_aggregate, g, 0, warmup}, {pass_plain, g, 0, 0}, /* for --peers */
    };
    timing t[3];
    verified v;

    g->count = count;
    g->total = 0;
    for (size_t i = 0; i < count; i++)
        g->total += g->lens[i];
    program_progress(o->quiet, list->count + 1, list->total, g->codec, o->synthetic, "measuring");
    if (!check(g, &v, why) || !measure(operations, o->peers ? 3 : 2, o->seconds, t, &rounds, why))
        return false;
    return add_one(list, g, ROW_AGGREGATE, g->codec, &t[0], &t[1], rounds, &v, why) &&
           (!o->peers || add_one(list, g, ROW_PEER, "decompress-add, compress", &t[0], &t[2], rounds, &v, why));
}

static bool add_codec(row_list *list, const options *o, const char *codec, source *s, size_t values, char *why)
{
    gathering g = {.o = o, .codec = codec, .n = values, .seed = o->channel.seed};
    size_t most = 0;
    bool ok;

    for (size_t i = 0; i < o->inputs.count; i++)
        most = o->inputs.items[i] > most ? o->inputs.items[i] : most;
    ok = gathering_open(&g, s, most, why);
    for (size_t i = 0; ok && i < o->inputs.count; i++)
        ok = add_rows(list, &g, o->inputs.items[i], why);
    gathering_close(&g);
    program_progress_end(o->quiet);
    return ok;
}

bool aggregate_rows(row_list *list, const options *o, source *s, size_t values, char *why)
{
    char reason[WHY_SIZE];
    bool ok = true;

    list->total = list->inputs * o->codec_count * o->inputs.count * (1 + o->peers);
    for (size_t i = 0; ok && i < o->codec_count; i++)
        ok = add_codec(list, o, o->codecs[i].codec, s, values, reason) ||
             explain(why, "%s: %s", o->codecs[i].codec, reason);
    return ok;
}
