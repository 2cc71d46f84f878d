/* SPDX-License-Identifier: MIT */
#include "loop.h"
#include "../../lib/codecs.h"
#include "../../lib/explain.h"
#include <math.h>
#include <stdlib.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool open_rank(loop *l, size_t rank, char *why)
{
    const loop_options *o = &l->o;
    tlc_exchange_config config;
    tlc_outcome outcome;
    tlc_tensor tensor;

    (void)tlc_exchange_config_init(&config, sizeof config);
    (void)tlc_outcome_init(&outcome, sizeof outcome);
    (void)tlc_tensor_init(&tensor, sizeof tensor);
    config.outcome = &outcome;
    config.workers = (uint32_t)o->ranks;
    config.gather = o->kind == LOOP_GATHER;
    config.push = o->push;
    config.pull = o->pull;
    config.seed = o->seed;
    if (codec_has_residual(o->push, -1)) {
        l->residual[rank] = calloc(o->n, sizeof(float));
        if (!l->residual[rank])
            return explain(why, "out of memory");
    }
    tensor.name = "model";
    tensor.n = o->n;
    tensor.residual = l->residual[rank];
    return !tlc_allreduce_create(&l->rank[rank], &config, (uint32_t)rank, &tensor, 1) ||
           explain(why, "%s", outcome.sentence);
}

bool loop_open(loop *l, const loop_options *o, char *why)
{
    *l = (loop){.o = *o,
                .change = calloc(o->n, sizeof(float)),
                .mean = calloc(o->n, sizeof(float)),
                .delta = calloc(o->n, sizeof(float))};
    bool ok = (l->change && l->mean && l->delta) || explain(why, "out of memory");

    for (size_t r = 0; ok && r < o->ranks; r++)
        ok = open_rank(l, r, why);
    return ok;
}

void loop_close(loop *l)
{
    for (size_t r = 0; r < l->o.ranks; r++) {
        tlc_allreduce_destroy(l->rank[r]);
        free(l->residual[r]);
    }
    free(l->change);
    free(l->mean);
    free(l->delta);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static double squares(const float *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; x && i < n; i++)
        sum += (double)x[i] * x[i];
    return sum;
}

static double ratio(double residual, double signal)
{
    return signal > 0 ? sqrt(residual / signal) : 0;
}

/* Of rank 0. */
static void measure_pushes(loop *l, const float *gradient)
{
    l->figures.push = ratio(squares(l->residual[0], l->o.n), squares(gradient, l->o.n));
}

/* Over the parts of all owners. */
static void measure_answers(loop *l)
{
    double residual = 0, signal = 0;
    tlc_part part;

    (void)tlc_part_init(&part, sizeof part);
    for (size_t r = 0; r < l->o.ranks; r++)
        for (size_t i = 0; !tlc_allreduce_part(l->rank[r], i, &part); i++) {
            residual += squares(part.residual, part.n);
            signal += squares(l->o.kind == LOOP_DELTAS ? l->delta + part.first : part.mean, part.n);
        }
    l->figures.answer = ratio(residual, signal);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

/* pushes[i]: what rank i gets from all ranks. With gather all get the same. */
static tlc_status push_all(loop *l, const float *const *gradients, tlc_message (*pushes)[LOOP_RANKS_MAX])
{
    const size_t ranks = l->o.ranks, to_each = l->o.kind == LOOP_GATHER ? 1 : ranks;
    tlc_status status = TLC_OK;

    for (size_t r = 0; r < ranks && !status; r++) {
        tlc_message to[LOOP_RANKS_MAX] = {{NULL, 0}};
        status = tlc_allreduce_push(l->rank[r], (const void *const *)&gradients[r], 1, to);
        for (size_t i = 0; i < to_each; i++) {
            pushes[i][r] = to[i];
            l->figures.push_bytes += r ? 0 : (double)to[i].len;
        }
    }
    return status;
}

/* An owner has the optimiser of its parts. The model is one tensor, so it owns one at most. */
static tlc_status answer_with_delta(loop *l, size_t r, const tlc_message *from, loop_update *update, void *arg,
                                    tlc_message *to_all)
{
    tlc_status status = tlc_allreduce_average(l->rank[r], from);
    tlc_part part;

    (void)tlc_part_init(&part, sizeof part);
    part.first = 0;
    if (!status && !tlc_allreduce_part(l->rank[r], 0, &part))
        update(arg, part.first, part.n, part.mean, l->delta + part.first);
    return status ? status : tlc_allreduce_answer(l->rank[r], (const float *const[]){l->delta + part.first}, to_all);
}

static tlc_status step(loop *l, const float *const *gradients, loop_update *update, void *arg)
{
    tlc_message pushes[LOOP_RANKS_MAX][LOOP_RANKS_MAX], answers[LOOP_RANKS_MAX] = {{NULL, 0}};
    const bool gather = l->o.kind == LOOP_GATHER, deltas = l->o.kind == LOOP_DELTAS;
    tlc_status status = push_all(l, gradients, pushes);

    for (size_t r = 0; r < l->o.ranks && !status && !gather; r++) {
        status = deltas ? answer_with_delta(l, r, pushes[r], update, arg, &answers[r])
                        : tlc_allreduce_reduce(l->rank[r], pushes[r], &answers[r]);
        l->figures.answer_bytes += (double)answers[r].len;
    }
    for (size_t r = 0; r < l->o.ranks && !status; r++)
        status = tlc_allreduce_pull(l->rank[r], gather ? pushes[0] : answers,
                                    (void *const[]){deltas ? l->change : l->mean});
    return status;
}

bool loop_step(loop *l, const float *const *gradients, loop_update *update, void *arg, float *model, char *why)
{
    tlc_status status = step(l, gradients, update, arg);

    if (status)
        return explain(why, "%s", tlc_status_string(status));
    measure_pushes(l, gradients[0]);
    measure_answers(l);
    if (l->o.kind != LOOP_DELTAS)
        update(arg, 0, l->o.n, l->mean, l->change);
    for (size_t i = 0; i < l->o.n; i++)
        model[i] += l->change[i];
    return true;
}
