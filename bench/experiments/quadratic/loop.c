/* SPDX-License-Identifier: MIT */
#include "loop.h"
#include "../../codecs.h"
#include "../../explain.h"
#include <math.h>
#include <stdlib.h>

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tlc_status create(loop *l, size_t rank, tlc_exchange_config *config, tlc_outcome *outcome)
{
    tlc_tensor tensor;

    (void)tlc_tensor_init(&tensor, sizeof tensor);
    tensor.name = "model";
    tensor.n = l->o.n;
    tensor.residual = l->residual[rank];
    config->outcome = outcome;
    if (l->o.kind != LOOP_DELTAS)
        return tlc_allreduce_create(&l->rank[rank], config, (uint32_t)rank, &tensor, 1);
    tlc_status status = tlc_worker_create(&l->worker[rank], config, (uint32_t)rank, &tensor, 1);
    tensor.residual = NULL;
    return status || rank ? status : tlc_server_create(&l->server, config, 0, &tensor, 1);
}

static bool open_rank(loop *l, size_t rank, char *why)
{
    const loop_options *o = &l->o;
    tlc_exchange_config config;
    tlc_outcome outcome;

    (void)tlc_exchange_config_init(&config, sizeof config);
    (void)tlc_outcome_init(&outcome, sizeof outcome);
    config.workers = (uint32_t)o->ranks;
    config.servers = o->kind == LOOP_DELTAS;
    config.gather = o->kind == LOOP_GATHER;
    config.push = o->push;
    config.pull = o->pull;
    config.seed = o->seed;
    if (codec_has_residual(o->push, -1)) {
        l->residual[rank] = calloc(o->n, sizeof(float));
        if (!l->residual[rank])
            return explain(why, "out of memory");
    }
    return !create(l, rank, &config, &outcome) || explain(why, "%s", outcome.sentence);
}

bool loop_open(loop *l, const loop_options *o, char *why)
{
    *l = (loop){.o = *o, .change = calloc(o->n, sizeof(float)), .mean = calloc(o->n, sizeof(float))};
    bool ok = (l->change && l->mean) || explain(why, "out of memory");

    for (size_t r = 0; ok && r < o->ranks; r++)
        ok = open_rank(l, r, why);
    return ok;
}

void loop_close(loop *l)
{
    for (size_t r = 0; r < l->o.ranks; r++) {
        tlc_worker_destroy(l->worker[r]);
        tlc_allreduce_destroy(l->rank[r]);
        free(l->residual[r]);
    }
    tlc_server_destroy(l->server);
    free(l->change);
    free(l->mean);
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

/* Over the parts of all owners. signal: what was compressed; NULL: the means. */
static void measure_answers(loop *l, const float *signal)
{
    double residual = 0, sent = signal ? squares(signal, l->o.n) : 0;
    tlc_part part;

    (void)tlc_part_init(&part, sizeof part);
    if (l->server && !tlc_server_part(l->server, 0, &part))
        residual = squares(part.residual, part.n);
    for (size_t r = 0; !l->server && r < l->o.ranks; r++)
        for (size_t i = 0; !tlc_allreduce_part(l->rank[r], i, &part); i++) {
            residual += squares(part.residual, part.n);
            sent += squares(part.mean, part.n);
        }
    l->figures.answer = ratio(residual, sent);
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

static tlc_status step_allreduce(loop *l, const float *const *gradients)
{
    tlc_message pushes[LOOP_RANKS_MAX][LOOP_RANKS_MAX], answers[LOOP_RANKS_MAX] = {{NULL, 0}};
    const bool gather = l->o.kind == LOOP_GATHER;
    tlc_status status = push_all(l, gradients, pushes);

    for (size_t r = 0; r < l->o.ranks && !status && !gather; r++) {
        status = tlc_allreduce_reduce(l->rank[r], pushes[r], &answers[r]);
        l->figures.answer_bytes += (double)answers[r].len;
    }
    for (size_t r = 0; r < l->o.ranks && !status; r++)
        status = tlc_allreduce_pull(l->rank[r], gather ? pushes[0] : answers, (void *const[]){l->mean});
    return status;
}

static tlc_status step_server(loop *l, const float *const *gradients, loop_update *update, void *arg)
{
    const size_t ranks = l->o.ranks;
    tlc_message push, answer;
    tlc_status status = TLC_OK;
    tlc_part part;

    for (size_t r = 0; r < ranks && !status; r++) {
        status = tlc_worker_push(l->worker[r], (const void *const *)&gradients[r], 1, &push);
        if (!status)
            status = tlc_server_push(l->server, push, NULL);
        l->figures.push_bytes += status || r ? 0 : (double)push.len;
    }
    if (!status)
        status = tlc_server_reduce(l->server);
    (void)tlc_part_init(&part, sizeof part);
    if (!status)
        status = tlc_server_part(l->server, 0, &part);
    if (status)
        return status;
    update(arg, part.mean, l->mean);
    status = tlc_server_answer(l->server, (const float *const[]){l->mean}, &answer);
    l->figures.answer_bytes += status ? 0 : (double)answer.len;
    for (size_t r = 0; r < ranks && !status; r++)
        status = tlc_worker_pull(l->worker[r], &answer, (void *const[]){l->change});
    return status;
}

bool loop_step(loop *l, const float *const *gradients, loop_update *update, void *arg, float *model, char *why)
{
    const bool deltas = l->o.kind == LOOP_DELTAS;
    tlc_status status = deltas ? step_server(l, gradients, update, arg) : step_allreduce(l, gradients);

    if (status)
        return explain(why, "%s", tlc_status_string(status));
    measure_pushes(l, gradients[0]);
    measure_answers(l, deltas ? l->mean : NULL);
    if (!deltas)
        update(arg, l->mean, l->change);
    for (size_t i = 0; i < l->o.n; i++)
        model[i] += l->change[i];
    return true;
}
