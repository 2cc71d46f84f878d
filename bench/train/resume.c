/* SPDX-License-Identifier: MIT */
#include "resume.h"
#include "../lib/explain.h"
#include "../mpi/ranks.h"
#include "checkpoint.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = WHY_SIZE / 2 };

static void folder_of(char *path, const trainer *t, uint64_t step)
{
    snprintf(path, PATH_SIZE, "%s/step-%08" PRIu64, t->o->checkpoint, step);
}

static void file_of(char *path, const trainer *t, uint64_t step, int rank)
{
    char folder[PATH_SIZE];

    folder_of(folder, t, step);
    snprintf(path, WHY_SIZE, "%s/rank-%d", folder, rank);
}

/* ---- latest ------------------------------------------------------------------------------------------------------ */

static void path_of_latest(char *path, const trainer *t)
{
    snprintf(path, PATH_SIZE, "%s/latest", t->o->checkpoint);
}

#define RANKS_MAX (1 << 20)

/* The last step, and how many ranks wrote it, 1 to RANKS_MAX. false: there is none. */
static bool read_latest(const trainer *t, uint64_t *step, int *ranks)
{
    char path[PATH_SIZE], line[64] = "", *end = line;
    FILE *f;

    path_of_latest(path, t);
    f = fopen(path, "r");
    if (!f)
        return false;
    if (fgets(line, sizeof line, f)) {
        *step = strtoull(line, &end, 10);
        const long count = strtol(end, &end, 10);
        *ranks = count < 1 || count > RANKS_MAX ? 0 : (int)count;
    }
    fclose(f);
    return end > line && *ranks > 0;
}

static bool write_latest(const trainer *t, char *why)
{
    char path[PATH_SIZE], part[WHY_SIZE];
    FILE *f;
    bool ok;

    path_of_latest(path, t);
    snprintf(part, sizeof part, "%s.part", path);
    f = fopen(part, "w");
    ok = f && fprintf(f, "%zu %d\n", t->step, t->ranks) > 0 && !fflush(f) && !fsync(fileno(f));
    ok = f && !fclose(f) && ok;
    return (ok && !rename(part, path)) || explain(why, "%s: %s", path, strerror(errno));
}

/* ---- saving ------------------------------------------------------------------------------------------------------ */

static bool make_folder(const char *path, char *why)
{
    return !mkdir(path, 0777) || errno == EEXIST || explain(why, "%s: %s", path, strerror(errno));
}

static uint64_t last_step(const trainer *t)
{
    return t->o->constant ? 0 : t->o->steps;
}

static bool save_own(const trainer *t, char *why)
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
    file_of(path, t, t->step, t->rank);
    ok = c.block ? checkpoint_write(&c, path, why) : explain(why, "the state cannot be saved");
    checkpoint_free(&c);
    return ok;
}

static void remove_step(const trainer *t, uint64_t step, int ranks)
{
    char path[WHY_SIZE];

    for (int i = 0; i < ranks; i++) {
        file_of(path, t, step, i);
        unlink(path);
    }
    folder_of(path, t, step);
    rmdir(path);
}

bool resume_save(const trainer *t, char *why)
{
    char path[PATH_SIZE];
    uint64_t before = 0;
    int ranks = 0;
    bool ok = true;
    const bool had = t->rank == 0 && read_latest(t, &before, &ranks);

    folder_of(path, t, t->step);
    if (t->rank == 0)
        ok = make_folder(t->o->checkpoint, why) && make_folder(path, why);
    if (!ranks_agree(ok, why) || !ranks_agree(save_own(t, why), why) ||
        !ranks_agree(t->rank || write_latest(t, why), why))
        return false;
    if (had && before != t->step)
        remove_step(t, before, ranks);
    return true;
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

static bool read_files(const trainer *t, checkpoint *files, uint64_t step, int first, int count, char *why)
{
    char path[WHY_SIZE];
    bool ok = true;

    for (int i = 0; ok && i < count; i++) {
        file_of(path, t, step, first + i);
        ok = checkpoint_read(&files[i], path, why) && check(t, &files[i], path, why);
    }
    return ok;
}

/* Whether this run has the ranks and servers of that one. */
static bool same_ranks(const trainer *t, const checkpoint *c)
{
    return c->head.ranks == (uint64_t)t->ranks && c->head.servers == t->sync.o.servers;
}

static bool load_own(trainer *t, uint64_t step, int ranks, char *why)
{
    const bool same = ranks == t->ranks;
    checkpoint *files = calloc((size_t)ranks, sizeof *files);
    bool ok = files || explain(why, "out of memory");

    ok = ok && read_files(t, files, step, same ? t->rank : 0, 1, why);
    if (ok && same && same_ranks(t, &files[0])) {
        ok = take(t, files, 1, why);
    } else if (ok) {
        checkpoint_free(&files[0]);
        ok = read_files(t, files, step, 0, ranks, why) && take(t, files, (size_t)ranks, why);
    }
    for (int i = 0; files && i < ranks; i++)
        checkpoint_free(&files[i]);
    free(files);
    return ok;
}

bool resume_load(trainer *t, char *why)
{
    uint64_t step = 0;
    int ranks = 0;

    return ranks_agree((read_latest(t, &step, &ranks) ||
                        explain(why, "%s: there is no checkpoint", t->o->checkpoint)) &&
                           load_own(t, step, ranks, why),
                       why);
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
