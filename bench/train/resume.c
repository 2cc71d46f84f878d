/* SPDX-License-Identifier: MIT */
#include "resume.h"
#include "../lib/explain.h"
#include "../mpi/ranks.h"
#include "checkpoint.h"
#include "saved.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void file_of(char *path, const trainer *t, const saved_step *s, int rank)
{
    saved_file(path, WHY_SIZE, t->o->checkpoint, s, rank);
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static uint64_t last_step(const trainer *t)
{
    return t->o->constant ? 0 : t->o->steps;
}

static bool save_own(const trainer *t, const saved_step *s, char *why)
{
    char settings[SETTINGS_SIZE], path[WHY_SIZE];
    checkpoint c = {.settings = settings,
                    .weights = t->weights,
                    .mean = t->optimiser.mean,
                    .square = t->optimiser.square};
    bool ok;

    train_settings(t->o, settings);
    c.block = sync_save(&t->sync, &c.state.len);
    c.state.data = c.block;
    c.head = (checkpoint_head){.kind = t->sync.o.kind,
                               .graph = t->sync.o.graph,
                               .ranks = (uint64_t)t->ranks,
                               .servers = t->sync.o.servers,
                               .step = t->step,
                               .last = last_step(t),
                               .values = t->model.values,
                               .settings = strlen(settings) + 1,
                               .state = c.state.len,
                               .steps = t->optimiser.done,
                               .totals = trainer_count(t)};
    file_of(path, t, s, t->rank);
    ok = c.block ? checkpoint_write(&c, path, why) : explain(why, "the state cannot be saved");
    checkpoint_free(&c);
    return ok;
}

/* The step that is to be written. Where the last one is the same, of a run before, it has another folder, so that one
 * of both is whole at any time. All ranks hear of it. */
static saved_step next_of(const trainer *t)
{
    saved_step last, next = {.step = t->step, .ranks = t->ranks};
    int again = 0;

    if (t->rank == 0 && saved_read(t->o->checkpoint, &last) && last.step == t->step)
        again = !last.again;
    MPI_Bcast(&again, 1, MPI_INT, 0, MPI_COMM_WORLD);
    next.again = again;
    return next;
}

bool resume_save(const trainer *t, char *why)
{
    const saved_step next = next_of(t);

    return ranks_agree(t->rank || saved_begin(t->o->checkpoint, &next, why), why) &&
           ranks_agree(save_own(t, &next, why), why) &&
           ranks_agree(t->rank || saved_end(t->o->checkpoint, &next, why), why);
}

/* ---- loading ----------------------------------------------------------------------------------------------------- */

static bool check_kind(const trainer *t, const checkpoint *c, const char *path, char *why)
{
    char theirs[KIND_SIZE], ours[KIND_SIZE];

    if (c->head.kind == t->sync.o.kind && c->head.graph == t->sync.o.graph)
        return true;
    if (!train_kind(c->head.kind, c->head.graph, theirs) || !train_kind(t->sync.o.kind, t->sync.o.graph, ours))
        return explain(why, "%s: is of a run of another version", path);
    return explain(why, "%s: is of a run with --kind %s, this one with --kind %s", path, theirs, ours);
}

static bool check(const trainer *t, const checkpoint *c, const char *path, char *why)
{
    char settings[SETTINGS_SIZE], differ[WHY_SIZE];
    const checkpoint_head *h = &c->head;

    train_settings(t->o, settings);
    if (!check_kind(t, c, path, why))
        return false;
    if (strcmp(c->settings, settings) != 0) {
        train_settings_compare(c->settings, settings, differ);
        return explain(why, "%.2000s: is of a run %.3000s", path, differ);
    }
    if (h->last != last_step(t))
        return explain(why,
                       "%s: is of a run with --steps %" PRIu64 ", this one with --steps %zu: with --decay linear "
                       "the learning rate depends on it",
                       path, h->last, t->o->steps);
    if (h->step > t->o->steps)
        return explain(why, "%s: is of step %" PRIu64 ", this run with --steps %zu ends before it", path, h->step,
                       t->o->steps);
    return h->values == t->model.values ||
           explain(why, "%s: has %" PRIu64 " values, the model %zu", path, h->values, t->model.values);
}

static void add_up(float *sum, const float *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += values[i];
}

/* Momentum correction: of the velocities of other ranks each gets the mean, so that the mean stays. */
static void take_mean_velocity(trainer *t, const checkpoint *files, size_t count)
{
    float *velocity = t->optimiser.mean;
    const size_t n = t->model.values;

    memset(velocity, 0, n * sizeof *velocity);
    for (size_t i = 0; i < count; i++)
        add_up(velocity, files[i].mean, n);
    for (size_t i = 0; i < n; i++)
        velocity[i] /= (float)count;
}

/* Servers and owners have an optimiser of their own parts, and 0 elsewhere. */
static void take_parts(trainer *t, const checkpoint *files, size_t count, const checkpoint *own)
{
    const size_t n = t->model.values;

    for (size_t i = 0; i < count; i++) {
        if (&files[i] != own) {
            add_up(t->optimiser.mean, files[i].mean, n);
            add_up(t->optimiser.square, files[i].square, n);
        }
    }
    sync_keep_own(&t->sync, t->optimiser.mean);
    sync_keep_own(&t->sync, t->optimiser.square);
}

static void take_optimiser(trainer *t, const checkpoint *files, size_t count)
{
    const size_t size = t->model.values * sizeof(float);
    const checkpoint *own = &files[count > 1 ? (size_t)t->rank % count : 0];

    t->optimiser.done = (size_t)own->head.steps;
    memcpy(t->optimiser.mean, own->mean, size);
    memcpy(t->optimiser.square, own->square, size);
    if (count == 1 || t->o->changes)
        return;
    if (t->optimiser.corrected)
        take_mean_velocity(t, files, count);
    else if (t->sync.o.kind == SYNC_SERVER || t->sync.o.kind == SYNC_OWNERS)
        take_parts(t, files, count, own);
}

/* files: this rank's own, or those of all ranks of a run with other ranks. */
static bool take(trainer *t, const checkpoint *files, size_t count, char *why)
{
    tlc_message *states = calloc(count, sizeof *states);
    bool ok;

    if (!states)
        return explain(why, "out of memory");
    for (size_t i = 0; i < count; i++)
        states[i] = files[i].state;
    ok = sync_load(&t->sync, states, count, why);
    free(states);
    if (!ok)
        return false;
    t->step = (size_t)files[0].head.step;
    if (t->o->warmup && !sync_as_floats(&t->sync, t->step < t->o->warmup, why))
        return false;
    take_optimiser(t, files, count);
    memcpy(t->weights, files[0].weights, t->model.values * sizeof *t->weights);
    if (t->sync.o.kind == SYNC_GOSSIP)
        sync_gossip_model(&t->sync, t->weights);
    if (count == 1) {
        t->before = files[0].head.totals;
        t->totals = files[0].head.totals;
    } else {
        t->totals.first = t->step;
    }
    return true;
}

static bool read_files(const trainer *t, checkpoint *files, const saved_step *s, int first, int count, char *why)
{
    char path[WHY_SIZE];
    bool ok = true;

    for (int i = 0; ok && i < count; i++) {
        file_of(path, t, s, first + i);
        ok = checkpoint_read(&files[i], path, why) && check(t, &files[i], path, why);
    }
    return ok;
}

/* Whether this run has the ranks and servers of that one. */
static bool same_ranks(const trainer *t, const checkpoint *c)
{
    return c->head.ranks == (uint64_t)t->ranks && c->head.servers == t->sync.o.servers;
}

static bool load_own(trainer *t, const saved_step *s, char *why)
{
    const bool same = s->ranks == t->ranks;
    const size_t ranks = (size_t)s->ranks;
    checkpoint *files = calloc(ranks, sizeof *files);
    bool ok = files || explain(why, "out of memory");

    ok = ok && read_files(t, files, s, same ? t->rank : 0, 1, why);
    if (ok && same && same_ranks(t, &files[0])) {
        ok = take(t, files, 1, why);
    } else if (ok) {
        checkpoint_free(&files[0]);
        ok = read_files(t, files, s, 0, s->ranks, why) && take(t, files, ranks, why);
    }
    for (size_t i = 0; files && i < ranks; i++)
        checkpoint_free(&files[i]);
    free(files);
    return ok;
}

bool resume_load(trainer *t, char *why)
{
    saved_step last;

    if (!ranks_agree((saved_read(t->o->checkpoint, &last) ||
                      explain(why, "%s: there is no checkpoint", t->o->checkpoint)) &&
                         load_own(t, &last, why),
                     why) ||
        !sync_compare(&t->sync, why))
        return false;
    if (t->rank == 0)
        saved_clean(t->o->checkpoint, &last);
    return true;
}

/* ---- residuals --------------------------------------------------------------------------------------------------- */

static void add_values(const double *values, size_t n, double *sum, double *norm)
{
    double squares = 0;

    *sum = 0;
    for (size_t i = 0; i < n; i++) {
        *sum += values[i];
        squares += values[i] * values[i];
    }
    *norm = sqrt(squares);
}

bool resume_measure(trainer *t, resume_residuals *r, char *why)
{
    const size_t n = t->model.values;
    double *values = calloc(2 * n, sizeof *values);
    const bool ok = ranks_agree(values || explain(why, "out of memory"), why);

    if (ok && values) {
        sync_residuals(&t->sync, values, values + n);
        add_values(values, n, &r->push_sum, &r->push_norm);
        add_values(values + n, n, &r->answer_sum, &r->answer_norm);
    }
    free(values);
    return ok;
}
