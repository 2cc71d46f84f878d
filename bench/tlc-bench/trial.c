/* SPDX-License-Identifier: MIT */
#include "trial.h"
#include "../lib/channel.h"
#include "../lib/codecs.h"
#include "../lib/cold.h"
#include "../lib/explain.h"
#include "../lib/gradients.h"
#include "../lib/roofline.h"
#include "direct.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MIN_STEPS = 16, MAX_STEPS = 1 << 16 };

/* What is timed in a step. */
enum { STEP, CODEC, ADD, OTHER, CLOCKS };

typedef struct trial {
    const trial_options *o;
    fleet fleet;
    direct direct;
    tlc_ctx **whole; /* by tensor: what rank 0 would send without an exchange, */
    unsigned char *frame;
    /* of all tensors at their offsets. spare: gradients of others; before: the residual of rank 0 */
    float *grads, *spare, *out, *others, *directly, *before;
    const void **grads_at, **spare_at; /* by tensor */
    void **out_at, **others_at;
    cold cold;
    bool same_frames; /* the frames of both must be the same */
    bool timed;
    double now[CLOCKS];
    double *seconds[CLOCKS]; /* by step */
    size_t slots;
    uint64_t *sent; /* by machine, in the steps that are counted */
    uint64_t *told; /* by machine, since the start */
    trial_result result;
} trial;

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool allocate(trial *t)
{
    const shape_list *model = t->o->model;
    size_t size = model->room * sizeof(float), machines = fleet_machines(&t->fleet);

    t->grads = channel_buffer(size);
    t->spare = channel_buffer(size);
    t->out = channel_buffer(size);
    t->others = channel_buffer(size);
    t->directly = channel_buffer(size);
    t->before = channel_buffer(size);
    t->grads_at = calloc(model->count, sizeof *t->grads_at);
    t->spare_at = calloc(model->count, sizeof *t->spare_at);
    t->out_at = calloc(model->count, sizeof *t->out_at);
    t->others_at = calloc(model->count, sizeof *t->others_at);
    t->sent = calloc(machines, sizeof *t->sent);
    t->told = calloc(machines, sizeof *t->told);
    t->whole = calloc(model->count, sizeof(tlc_ctx *));
    if (!cold_open(&t->cold, size, t->o->cache) || !t->grads || !t->spare || !t->out || !t->others || !t->directly ||
        !t->before || !t->grads_at || !t->spare_at || !t->out_at || !t->others_at || !t->sent || !t->told || !t->whole)
        return false;
    for (size_t i = 0; i < model->count; i++) {
        size_t offset = model->shapes[i].offset;
        t->grads_at[i] = t->grads + offset;
        t->spare_at[i] = t->spare + offset;
        t->out_at[i] = t->out + offset;
        t->others_at[i] = t->others + offset;
    }
    return true;
}

static tlc_status make_whole(trial *t)
{
    const fleet_options *o = &t->o->fleet;
    size_t largest = 0;
    tlc_config cfg;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.isa = o->isa;
    cfg.seed = o->seed;
    for (size_t i = 0; i < t->o->model->count; i++) {
        const shape *s = &t->o->model->shapes[i];
        cfg.codec = fleet_is_small(s) ? "raw" : o->codec;
        cfg.feedback = fleet_is_small(s) ? 1 : -1;
        tlc_status status = tlc_create(&t->whole[i], &cfg, s->n);
        if (status)
            return status;
        if (tlc_bound(t->whole[i]) > largest)
            largest = tlc_bound(t->whole[i]);
    }
    t->frame = channel_buffer(largest);
    return t->frame ? TLC_OK : TLC_ERR_NOMEM;
}

/* Residuals as in a long run, as far as they were recorded. */
static void start(trial *t)
{
    const trial_options *o = t->o;

    for (size_t r = 0; r < o->fleet.ranks && t->fleet.residual[r]; r++)
        gradients_start(o->from, o->model, o->fleet.seed, r, t->fleet.residual[r]);
    if (!t->fleet.residual[0])
        return;
    for (size_t i = 0; i < o->model->count; i++) {
        const shape *s = &o->model->shapes[i];
        if (!fleet_is_small(s))
            memcpy(tlc_residual(t->whole[i]), t->fleet.residual[0] + s->offset, s->n * sizeof(float));
    }
}

static bool open_trial(trial *t, const trial_options *o, char *why)
{
    tlc_status status;

    *t = (trial){.o = o, .same_frames = !codec_uses_seed(o->fleet.codec)};
    if (!fleet_open(&t->fleet, o->model, &o->fleet, why) || !direct_open(&t->direct, &t->fleet, why))
        return false;
    if (!allocate(t))
        return explain(why, "out of memory");
    status = make_whole(t);
    if (status)
        return explain(why, "%s", tlc_status_string(status));
    start(t);
    t->result.isa = tlc_isa_used(t->whole[0]);
    t->result.feedback = t->fleet.residual[0] != NULL;
    return true;
}

static void close_trial(trial *t)
{
    for (size_t i = 0; t->whole && i < t->o->model->count; i++)
        tlc_destroy(t->whole[i]);
    for (int i = 0; i < CLOCKS; i++)
        free(t->seconds[i]);
    direct_close(&t->direct);
    fleet_close(&t->fleet);
    cold_close(&t->cold);
    free(t->grads);
    free(t->spare);
    free(t->out);
    free(t->others);
    free(t->directly);
    free(t->before);
    free(t->grads_at);
    free(t->spare_at);
    free(t->out_at);
    free(t->others_at);
    free(t->sent);
    free(t->told);
    free(t->whole);
    free(t->frame);
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

typedef bool call(trial *t, char *why);

static bool time_call(trial *t, call *c, int clock, char *why)
{
    double start;
    bool ok;

    if (!t->timed)
        return c(t, why);
    start = cold_start(&t->cold);
    ok = c(t, why);
    t->now[clock] += cold_stop(start);
    return ok;
}

static bool exchange_push(trial *t, char *why)
{
    return fleet_push(&t->fleet, 0, t->grads_at, why);
}

static bool exchange_reduce(trial *t, char *why)
{
    return fleet_reduce(&t->fleet, 0, why);
}

static bool exchange_serve(trial *t, char *why)
{
    return fleet_serve(&t->fleet, 0, why);
}

static bool exchange_pull(trial *t, char *why)
{
    return fleet_pull(&t->fleet, 0, t->out_at, why);
}

static void check_finite(const trial *t, float *values, size_t n)
{
    roofline_loops_of(t->o->fleet.isa)->sweeps[ROOFLINE_NO_RESIDUAL][0](&(slice){.g = values, .r = values, .n = n});
}

static bool codec_push(trial *t, char *why)
{
    const shape_list *model = t->o->model;

    for (size_t i = 0; !t->o->fleet.assume_finite && i < model->count; i++)
        check_finite(t, t->grads + model->shapes[i].offset, model->shapes[i].n);
    return direct_push(&t->direct, t->grads, why);
}

static bool codec_add(trial *t, char *why)
{
    return t->o->fleet.algorithm == GATHER ? direct_pull(&t->direct, t->out, why) : direct_add(&t->direct, why);
}

static bool codec_reduce(trial *t, char *why)
{
    if (!direct_add(&t->direct, why))
        return false;
    for (size_t i = 0; i < t->direct.group_count; i++) {
        const direct_group *g = &t->direct.groups[i];
        if (g->mean)
            check_finite(t, g->mean, g->n);
    }
    return direct_answer(&t->direct, why);
}

static bool codec_pull(trial *t, char *why)
{
    return direct_pull(&t->direct, t->out, why);
}

static bool keep_times(trial *t, char *why)
{
    size_t at = t->result.steps;

    if (at == t->slots) {
        t->slots = t->slots ? t->slots * 2 : 64;
        for (int i = 0; i < CLOCKS; i++) {
            double *seconds = realloc(t->seconds[i], t->slots * sizeof *seconds);
            if (!seconds)
                return explain(why, "out of memory");
            t->seconds[i] = seconds;
        }
    }
    t->now[OTHER] = t->now[STEP] / t->now[CODEC] - 1;
    for (int i = 0; i < CLOCKS; i++)
        t->seconds[i][at] = t->now[i];
    return true;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* The frames of whole tensors. */
static bool compress_whole(trial *t, char *why)
{
    for (size_t i = 0; i < t->o->model->count; i++) {
        size_t len;
        tlc_status status = tlc_compress(t->whole[i], t->grads_at[i], t->frame, tlc_bound(t->whole[i]), &len);
        if (status)
            return explain(why, "%s: tlc_compress: %s", t->o->model->shapes[i].name, tlc_status_string(status));
        if (t->timed)
            t->result.whole_bytes += len;
    }
    return true;
}

/* All ranks but rank 0. */
static bool push_others(trial *t, size_t step, char *why)
{
    bool ok = true;

    for (size_t r = 1; ok && r < t->o->fleet.ranks; r++) {
        gradients_make(t->o->from, t->o->model, t->o->fleet.seed, r, step, t->spare);
        ok = fleet_push(&t->fleet, r, t->spare_at, why);
    }
    return ok;
}

static bool pull_others(trial *t, char *why)
{
    size_t size = t->o->model->room * sizeof(float);
    bool ok = true;

    for (size_t r = 1; ok && r < t->o->fleet.ranks; r++) {
        ok = fleet_pull(&t->fleet, r, t->others_at, why) &&
             (!memcmp(t->out, t->others, size) || explain(why, "ranks 0 and %zu get different values", r));
    }
    return ok;
}

/* Times the calls without the exchange and those of the exchange, in turns one or the other first. between: what is to
 * be done between them. */
static bool time_both(trial *t, call *codec, call *exchange, void between(trial *t), char *why)
{
    bool exchange_first = t->result.steps % 2;

    if (!time_call(t, exchange_first ? exchange : codec, exchange_first ? STEP : CODEC, why))
        return false;
    between(t);
    return time_call(t, exchange_first ? codec : exchange, exchange_first ? CODEC : STEP, why);
}

/* Both find the same residuals, and leave the same residuals in the same memory. */
static void restore_push(trial *t)
{
    if (t->fleet.residual[0])
        memcpy(t->fleet.residual[0], t->before, t->o->model->room * sizeof(float));
}

static bool push_first(trial *t, char *why)
{
    if (t->fleet.residual[0])
        memcpy(t->before, t->fleet.residual[0], t->o->model->room * sizeof(float));
    direct_gather(&t->direct, t->grads);
    return time_both(t, codec_push, exchange_push, restore_push, why);
}

static bool push_all(trial *t, size_t step, char *why)
{
    return push_first(t, why) && push_others(t, step, why) && direct_find_pushes(&t->direct, why) &&
           (!t->same_frames || direct_check_pushes(&t->direct, why));
}

static void restore_answer(trial *t)
{
    direct_restore_residuals(&t->direct);
}

static bool reduce_first(trial *t, call *exchange, char *why)
{
    direct_keep_residuals(&t->direct);
    return time_both(t, codec_reduce, exchange, restore_answer, why);
}

static bool reduce_all(trial *t, char *why)
{
    bool ok = reduce_first(t, exchange_reduce, why);

    for (size_t r = 1; ok && r < t->o->fleet.ranks; r++)
        ok = fleet_reduce(&t->fleet, r, why);
    return ok && direct_find_answers(&t->direct, why) && (!t->same_frames || direct_check_answers(&t->direct, why));
}

/* Both write to the same memory. */
static void keep_results(trial *t)
{
    size_t size = t->o->model->room * sizeof(float);

    memcpy(t->directly, t->out, size);
    memset(t->out, 0, size);
}

static bool pull_all(trial *t, char *why)
{
    bool ok = time_both(t, codec_pull, exchange_pull, keep_results, why);

    if (!ok)
        return false;
    direct_scatter(&t->direct, t->result.steps % 2 ? t->out : t->directly);
    if (memcmp(t->out, t->directly, t->o->model->room * sizeof(float)) != 0)
        return explain(why, "the exchange gives other values than its codec calls");
    return pull_others(t, why);
}

/* Workers push and pull, and the server is measured. */
static bool serve_step(trial *t, size_t step, char *why)
{
    if (!fleet_push(&t->fleet, 0, t->grads_at, why) || !push_others(t, step, why) ||
        !direct_find_pushes(&t->direct, why) || !reduce_first(t, exchange_serve, why) ||
        !direct_find_answers(&t->direct, why))
        return false;
    return (!t->same_frames || direct_check_answers(&t->direct, why)) && fleet_pull(&t->fleet, 0, t->out_at, why) &&
           pull_others(t, why);
}

static bool count_bytes(trial *t, char *why)
{
    for (size_t i = 0; i < fleet_machines(&t->fleet); i++) {
        uint64_t bytes = fleet_sent(&t->fleet, i);
        t->told[i] += bytes;
        if (t->told[i] != fleet_counted(&t->fleet, i))
            return explain(why, "machine %zu sent other bytes than it counted", i);
        if (t->timed)
            t->sent[i] += bytes;
    }
    return true;
}

static bool run_step(trial *t, size_t step, char *why)
{
    bool ok;

    memset(t->now, 0, sizeof t->now);
    gradients_make(t->o->from, t->o->model, t->o->fleet.seed, 0, step, t->grads);
    if (!compress_whole(t, why))
        return false;
    switch (t->o->fleet.algorithm) {
    case SERVER: ok = serve_step(t, step, why); break;
    case GATHER: ok = push_all(t, step, why) && pull_all(t, why); break;
    default: ok = push_all(t, step, why) && reduce_all(t, why) && pull_all(t, why); break;
    }
    ok = ok && count_bytes(t, why);
    if (!ok || !t->timed)
        return ok;
    return time_call(t, codec_add, ADD, why) && keep_times(t, why);
}

/* ---- all steps --------------------------------------------------------------------------------------------------- */

static void summarise(trial *t)
{
    trial_result *r = &t->result;

    r->step = measure_summary(t->seconds[STEP], r->steps);
    r->codec = measure_summary(t->seconds[CODEC], r->steps);
    r->add = measure_summary(t->seconds[ADD], r->steps);
    r->other = measure_summary(t->seconds[OTHER], r->steps).median;
    r->other_best = r->step.best / r->codec.best - 1;
    r->frame_bytes = t->direct.frame_bytes;
    r->message_bytes = t->direct.message_bytes;
    for (size_t i = 0; i < fleet_machines(&t->fleet); i++) {
        r->sent_bytes += t->sent[i];
        r->busiest_bytes = t->sent[i] > r->busiest_bytes ? t->sent[i] : r->busiest_bytes;
    }
}

static bool run(trial *t, char *why)
{
    size_t step = 0;
    double end;

    for (; step < t->o->warmup; step++) {
        if (!run_step(t, step, why))
            return false;
    }
    t->timed = true;
    t->direct.frame_bytes = t->direct.message_bytes = 0;
    end = measure_now() + t->o->seconds;
    while (t->result.steps < MIN_STEPS || (measure_now() < end && t->result.steps < MAX_STEPS)) {
        if (!run_step(t, step++, why))
            return false;
        t->result.steps++;
    }
    summarise(t);
    return true;
}

bool trial_run(const trial_options *o, trial_result *result, char *why)
{
    trial t;
    bool ok = open_trial(&t, o, why) && run(&t, why);

    *result = t.result;
    close_trial(&t);
    return ok;
}
