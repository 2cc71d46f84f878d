/* SPDX-License-Identifier: MIT
 *
 * Rounds. With gradients their mean goes through an optimiser that all ranks have alike, or through those of the
 * servers or owners; those of local steps are added up first (3LC, "2 local steps"). With momentum correction ranks
 * send velocities in place of gradients (optimiser.h), and clear them where a value was sent. With changes each rank
 * has an optimiser of its own and makes some local steps (SBC, Algorithm 1; federated averaging); the mean of what
 * changed is added to the common model. With gossip each rank has a model of its own (threelc/exchange.h).
 */
#include "trainer.h"
#include "../lib/explain.h"
#include "../mpi/ranks.h"
#include <stdlib.h>
#include <string.h>

/* ---- open and close ---------------------------------------------------------------------------------------------- */

/* The optimiser of a server or an owner. */
static void update(void *arg, size_t first, size_t n, const float *mean, float *change)
{
    trainer *t = arg;

    optimiser_range(&t->optimiser, first, n, mean, change);
}

static float *new_values(const trainer *t)
{
    return calloc(t->model.values, sizeof(float));
}

static bool take_memory(trainer *t, char *why)
{
    t->weights = new_values(t);
    t->local = new_values(t);
    t->gradient = new_values(t);
    t->mean = new_values(t);
    t->index = calloc(t->o->batch, sizeof *t->index);
    t->in = calloc((size_t)t->ranks, sizeof *t->in);
    return (t->weights && t->local && t->gradient && t->mean && t->index && t->in) || explain(why, "out of memory");
}

static bool open_optimiser(trainer *t, char *why)
{
    const size_t each = t->o->changes ? 1 : t->o->local_steps; /* in a step of the optimiser */

    if (!optimiser_open(&t->optimiser, t->o->optimiser, t->o->rate, t->model.values, t->o->steps / each, why))
        return false;
    t->optimiser.constant = t->o->constant;
    t->optimiser.corrected = t->o->correction > 0;
    if (t->optimiser.corrected)
        t->optimiser.momentum = t->o->correction;
    t->optimiser.warmup = (t->o->rate_warmup + each - 1) / each;
    return true;
}

bool trainer_open(trainer *t, const train_options *o, const image_set *images, char *why)
{
    sync_options s = o->sync;

    *t = (trainer){.o = o, .images = images};
    MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t->ranks);
    if (!ranks_agree(classifier_open(&t->model, o->model, o->batch, why) && take_memory(t, why) &&
                         open_optimiser(t, why) &&
                         deal_open(&t->deal, images, (size_t)t->ranks, o->classes, o->seed, why),
                     why))
        return false;
    classifier_draw(&t->model, o->seed, t->weights);
    if (!o->changes)
        s.update = update;
    s.arg = t;
    s.floats_too = o->warmup > 0 || o->flush;
    return sync_open(&t->sync, &s, &t->model, t->weights, MPI_COMM_WORLD, why) &&
           ranks_agree(!o->warmup || sync_as_floats(&t->sync, true, why), why);
}

void trainer_close(trainer *t)
{
    sync_close(&t->sync);
    deal_close(&t->deal);
    optimiser_close(&t->optimiser);
    classifier_close(&t->model);
    free(t->weights);
    free(t->local);
    free(t->gradient);
    free(t->mean);
    free(t->index);
    free(t->in);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* The gradient of the next batch, of local step k of the round. */
static void compute(trainer *t, size_t k, const float *weights, void (*ready)(void *arg, size_t tensor), void *arg)
{
    deal_batch(&t->deal, (size_t)t->rank, t->step + k, t->o->batch, t->index);
    t->totals.loss += classifier_gradient(&t->model, weights, t->images, t->index, t->o->batch, t->gradient, ready,
                                          arg);
    t->totals.batches++;
}

static void add(const trainer *t, const float *change, float *model)
{
    for (size_t i = 0; i < t->model.values; i++)
        model[i] += change[i];
}

/* Momentum correction: what is sent of values first .. first + n - 1. */
static void correct(trainer *t, size_t first, size_t n)
{
    if (t->optimiser.corrected)
        optimiser_correct(&t->optimiser, first, n, t->gradient + first);
}

/* The velocity that was sent is that of this rank, also if the step was skipped: then it is in the residuals. */
static void keep_velocity(trainer *t)
{
    const classifier *model = &t->model;

    if (!t->optimiser.corrected)
        return;
    if (t->o->sync.layers)
        for (size_t i = 0; i < model->tensors; i++) /* each was sent, or dropped, by itself */
            optimiser_keep(&t->optimiser, model->tensor[i].first, model->tensor[i].n,
                           t->gradient + model->tensor[i].first);
    else
        optimiser_keep(&t->optimiser, 0, model->values, t->gradient);
    sync_mask(&t->sync, t->optimiser.mean);
}

/* A gradient that is sent layer by layer. */
typedef struct layers {
    trainer *t;
    bool ok;
    char *why;
} layers;

static void start_layer(void *arg, size_t tensor)
{
    layers *l = arg;
    const classifier_tensor *sent = &l->t->model.tensor[tensor];

    correct(l->t, sent->first, sent->n);
    l->ok = l->ok && sync_start_tensor(&l->t->sync, tensor, l->t->gradient, l->t->mean, l->why);
    sync_progress(&l->t->sync);
}

static sync_result mean_of_layers(trainer *t, double *computed, char *why)
{
    layers l = {.t = t, .ok = true, .why = why};

    compute(t, 0, t->weights, start_layer, &l);
    *computed = MPI_Wtime();
    return l.ok ? sync_wait(&t->sync, why) : SYNC_FAILED;
}

/* What came of gradients moves the model: a change, or a mean for the optimiser that all ranks have. */
static void move(trainer *t, sync_result result)
{
    const bool done = result == SYNC_DONE;

    if (t->o->sync.kind == SYNC_SERVER || (t->o->sync.kind == SYNC_OWNERS && done))
        add(t, t->mean, t->weights); /* 0 where a server skipped the step */
    else if (done)
        optimiser_range(&t->optimiser, 0, t->model.values, t->mean, t->weights);
}

/* The sum of the gradients of all local steps. */
static void compute_all(trainer *t)
{
    compute(t, 0, t->weights, NULL, NULL);
    for (size_t k = 1; k < t->o->local_steps; k++) {
        memcpy(t->local, t->gradient, t->model.values * sizeof *t->local);
        compute(t, k, t->weights, NULL, NULL);
        add(t, t->local, t->gradient);
    }
}

static sync_result round_of_gradients(trainer *t, double *computed, char *why)
{
    const bool in = t->in[t->rank];
    sync_result result;

    optimiser_begin(&t->optimiser);
    if (in && t->o->sync.layers) {
        result = mean_of_layers(t, computed, why);
    } else {
        if (in) {
            compute_all(t);
            correct(t, 0, t->model.values);
        }
        *computed = MPI_Wtime();
        result = sync_mean(&t->sync, in ? t->gradient : NULL, t->mean, why);
    }
    move(t, result);
    if (in && result != SYNC_FAILED)
        keep_velocity(t);
    return result;
}

static sync_result round_of_changes(trainer *t, double *computed, char *why)
{
    const bool in = t->in[t->rank];

    memcpy(t->local, t->weights, t->model.values * sizeof *t->local);
    for (size_t k = 0; k < t->o->local_steps; k++) {
        optimiser_begin(&t->optimiser);
        if (in) {
            compute(t, k, t->local, NULL, NULL);
            optimiser_range(&t->optimiser, 0, t->model.values, t->gradient, t->local);
        }
    }
    for (size_t i = 0; i < t->model.values; i++)
        t->gradient[i] = t->local[i] - t->weights[i];
    *computed = MPI_Wtime();
    sync_result result = sync_mean(&t->sync, in ? t->gradient : NULL, t->mean, why);
    if (t->o->sync.kind == SYNC_SERVER || result == SYNC_DONE)
        add(t, t->mean, t->weights);
    if (t->o->mask && in)
        sync_mask(&t->sync, t->optimiser.mean);
    return result;
}

static sync_result round_of_gossip(trainer *t, double *computed, char *why)
{
    compute(t, 0, t->weights, NULL, NULL);
    sync_gossip_mean(&t->sync, t->local);
    optimiser_begin(&t->optimiser);
    optimiser_range(&t->optimiser, 0, t->model.values, t->gradient, t->local);
    *computed = MPI_Wtime();
    return sync_gossip_move(&t->sync, t->local, t->weights, why);
}

bool trainer_round(trainer *t, char *why)
{
    const size_t ranks = (size_t)t->ranks, participants = t->o->participants ? t->o->participants : ranks;
    const double start = MPI_Wtime();
    double computed = start;
    sync_result result;

    if (t->o->warmup && t->step == t->o->warmup && !sync_as_floats(&t->sync, false, why))
        return false;
    deal_round(t->o->seed, t->step / t->o->local_steps, ranks, participants, t->in);
    if (t->o->sync.kind == SYNC_GOSSIP)
        result = round_of_gossip(t, &computed, why);
    else
        result = t->o->changes ? round_of_changes(t, &computed, why) : round_of_gradients(t, &computed, why);
    t->step += t->o->local_steps;
    t->totals.skipped += result == SYNC_SKIPPED;
    t->totals.compute += computed - start;
    t->totals.rounds += MPI_Wtime() - start;
    return result != SYNC_FAILED;
}

/* The rate is that of the last step. */
bool trainer_flush(trainer *t, char *why)
{
    sync_result result;

    memset(t->gradient, 0, t->model.values * sizeof *t->gradient);
    if (!sync_as_floats(&t->sync, true, why))
        return false;
    result = sync_mean(&t->sync, t->gradient, t->mean, why);
    if (result == SYNC_FAILED)
        return false;
    if (!t->o->changes)
        move(t, result);
    else if (result == SYNC_DONE)
        add(t, t->mean, t->weights);
    return true;
}

/* ---- what comes out ---------------------------------------------------------------------------------------------- */

trainer_totals trainer_count(const trainer *t)
{
    trainer_totals totals = t->totals;
    tlc_mpi_stats stats;

    sync_stats(&t->sync, &stats);
    totals.sent = t->before.sent + (double)stats.sent;
    totals.received = t->before.received + (double)stats.received;
    totals.codec = t->before.codec + stats.codec;
    totals.wait = t->before.wait + stats.waiting;
    return totals;
}

const float *trainer_result(trainer *t)
{
    const size_t n = t->model.values;

    if (t->o->sync.kind != SYNC_GOSSIP)
        return t->weights;
    MPI_Allreduce(t->weights, t->mean, (int)n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    for (size_t i = 0; i < n; i++)
        t->mean[i] /= (float)t->ranks;
    return t->mean;
}
