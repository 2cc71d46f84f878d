/* SPDX-License-Identifier: MIT
 *
 * A pass that is too short for the clock is repeated in its round.
 */
#include "measure.h"
#include "explain.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

#define MIN_ROUNDS 5
#define MAX_ROUNDS 100000
/* clock_gettime takes about 25 ns, less than a thousandth of this. A small pass is repeated so often that it mostly
 * finds its own data in the caches, not that of the operation before. */
#define MIN_SECONDS 200e-6

typedef struct job {
    const operation *operations;
    size_t count;
    size_t repeat[MAX_OPERATIONS];   /* passes in a round */
    double *seconds[MAX_OPERATIONS]; /* of a pass, for each round */
    size_t rounds, slots;
} job;

double measure_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool run(const operation *o, size_t passes, char *why)
{
    bool ok = true;

    while (ok && passes--)
        ok = o->pass(o->subject, o->which, why);
    return ok;
}

static bool warm_up(job *j, char *why)
{
    bool ok = true;

    for (size_t i = 0; ok && i < j->count; i++)
        ok = run(&j->operations[i], j->operations[i].warmup + 1, why);
    for (size_t i = 0; ok && i < j->count; i++) {
        double start = measure_now();
        ok = run(&j->operations[i], 1, why);
        double seconds = measure_now() - start;
        j->repeat[i] = seconds >= MIN_SECONDS ? 1 : (size_t)ceil(MIN_SECONDS / fmax(seconds, 1e-9));
    }
    return ok;
}

static bool grow(job *j, char *why)
{
    j->slots = j->slots ? j->slots * 2 : 64;
    for (size_t i = 0; i < j->count; i++) {
        double *seconds = realloc(j->seconds[i], j->slots * sizeof *seconds);
        if (!seconds)
            return explain(why, "out of memory");
        j->seconds[i] = seconds;
    }
    return true;
}

static bool run_rounds(job *j, double seconds, char *why)
{
    double end = measure_now() + seconds;
    bool ok = true;

    do {
        if (j->rounds == j->slots && !grow(j, why))
            return false;
        for (size_t i = 0; ok && i < j->count; i++) {
            double start = measure_now();
            ok = run(&j->operations[i], j->repeat[i], why);
            j->seconds[i][j->rounds] = (measure_now() - start) / (double)j->repeat[i];
        }
        j->rounds++;
    } while (ok && (j->rounds < MIN_ROUNDS || (measure_now() < end && j->rounds < MAX_ROUNDS)));
    return ok;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

timing measure_summary(double *seconds, size_t rounds)
{
    qsort(seconds, rounds, sizeof *seconds, compare);
    return (timing){.median = (seconds[(rounds - 1) / 2] + seconds[rounds / 2]) / 2, .best = seconds[0]};
}

bool measure(const operation *operations, size_t count, double seconds, timing *timings, size_t *rounds, char *why)
{
    job j = {.operations = operations, .count = count};
    bool ok = warm_up(&j, why) && run_rounds(&j, seconds, why);

    for (size_t i = 0; i < count; i++) {
        if (ok)
            timings[i] = measure_summary(j.seconds[i], j.rounds);
        free(j.seconds[i]);
    }
    *rounds = j.rounds;
    return ok;
}
