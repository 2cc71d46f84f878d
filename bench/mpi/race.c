/* SPDX-License-Identifier: MIT */
#include "race.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include "../lib/gradients.h"
#include "ranks.h"
#include "start_line.h"
#include "verdict.h"
#include <math.h>
#include <mpi.h>
#include <stdlib.h>

typedef struct race {
    const way_options *options;
    size_t count;
    const mpi_options *all;
    const char *program;
    start_line line;
    void **ways;
    float *grads;                      /* all tensors at their offsets */
    double *seconds, *codec, *waiting; /* [way * rounds + round] */
    way_cost *start, *end;             /* by way: before the first round that counts, and after the last one */
} race;

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static bool allocate(race *r)
{
    size_t cells = r->count * r->all->rounds;

    r->ways = calloc(r->count, sizeof *r->ways);
    r->grads = channel_buffer(r->options->model->room * sizeof *r->grads);
    r->seconds = calloc(cells, sizeof *r->seconds);
    r->codec = calloc(cells, sizeof *r->codec);
    r->waiting = calloc(cells, sizeof *r->waiting);
    r->start = calloc(r->count, sizeof *r->start);
    r->end = calloc(r->count, sizeof *r->end);
    return r->ways && r->grads && r->seconds && r->codec && r->waiting && r->start && r->end;
}

static bool open_race(race *r, char *why)
{
    bool ok = ranks_agree(allocate(r) || explain(why, "out of memory"), why);

    for (size_t i = 0; ok && i < r->count; i++) {
        r->ways[i] = r->options[i].method->open(&r->options[i], why);
        ok = r->ways[i] != NULL;
    }
    return ok;
}

static void close_race(race *r)
{
    for (size_t i = 0; r->ways && i < r->count && r->ways[i]; i++)
        r->options[i].method->close(r->ways[i]);
    free(r->ways);
    free(r->grads);
    free(r->seconds);
    free(r->codec);
    free(r->waiting);
    free(r->start);
    free(r->end);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static void step(race *r, size_t i, size_t round)
{
    const way_options *o = &r->options[i];
    bool counts = round >= r->all->warmup;
    size_t cell = i * r->all->rounds + (counts ? round - r->all->warmup : 0);
    way_cost before = o->method->cost(r->ways[i]), after;
    char why[WHY_SIZE];
    double start;

    gradients_make(o->from, o->model, r->all->source.seed, ranks_me(), round, r->grads);
    o->method->take(r->ways[i], r->grads);
    start = start_line_wait(&r->line);
    if (!o->method->step(r->ways[i], why))
        ranks_abort(r->program, why);
    r->seconds[cell] = measure_now() - start;
    after = o->method->cost(r->ways[i]);
    r->codec[cell] = after.codec - before.codec;
    r->waiting[cell] = after.waiting - before.waiting;
    if (round == r->all->warmup)
        r->start[i] = before;
    r->end[i] = after;
}

static bool run(race *r, char *why)
{
    size_t rounds = r->all->warmup + r->all->rounds;
    bool ok = true;

    for (size_t round = 0; ok && round < rounds; round++) {
        if (!ranks_me())
            program_progress(r->all->quiet, round + 1, rounds, r->options->model->model, "all ways", "a round");
        r->line = start_line_draw();
        for (size_t i = 0; ok && i < r->count; i++) {
            size_t at = (round + i) % r->count;
            step(r, at, round);
            if (round == rounds - 1)
                ok = verdict(&r->options[at], r->ways[at], round, why);
        }
    }
    if (!ranks_me())
        program_progress_end(r->all->quiet);
    return ok;
}

/* ---- of all ranks ------------------------------------------------------------------------------------------------ */

static double all(double value, MPI_Op how)
{
    double result;

    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, how, MPI_COMM_WORLD);
    return result;
}

/* Bytes and messages of a mean step. */
static void count_bytes(const race *r, size_t i, race_result *result)
{
    const way_options *o = &r->options[i];
    const way_cost now = r->end[i];
    double rounds = (double)r->all->rounds, sent = (now.sent - r->start[i].sent) / rounds;
    bool works = way_is_worker(o, ranks_me());

    result->sent_mean = all(works ? sent : 0, MPI_SUM) / (double)o->workers;
    result->sent = all(works ? sent : 0, MPI_MAX);
    result->server_sent = all(works ? 0 : sent, MPI_MAX);
    if (o->workers == ranks_count())
        result->server_sent = NAN;
    result->messages = all(works ? (now.messages - r->start[i].messages) / rounds : 0, MPI_MAX);
}

/* The median of the maxima of all ranks. */
static timing summary(const race *r, double *seconds, size_t i)
{
    size_t rounds = r->all->rounds;
    double *own = seconds + i * rounds;

    if (isnan(own[0]))
        return (timing){NAN, NAN};
    MPI_Allreduce(MPI_IN_PLACE, own, (int)rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return measure_summary(own, rounds);
}

static void summarise(race *r, race_result *results)
{
    for (size_t i = 0; i < r->count; i++) {
        results[i] = (race_result){.step = summary(r, r->seconds, i)};
        results[i].codec = summary(r, r->codec, i).median;
        results[i].waiting = summary(r, r->waiting, i).median;
        count_bytes(r, i, &results[i]);
    }
}

bool race_run(const way_options *ways, size_t count, const char *program, race_result *results, char *why)
{
    race r = {.options = ways, .count = count, .all = ways->all, .program = program};
    bool ok = open_race(&r, why) && run(&r, why);

    if (ok)
        summarise(&r, results);
    close_race(&r);
    return ok;
}
