/* SPDX-License-Identifier: MIT
 *
 * Ways to run tasks, for tlc_parallel.
 */
#include "support.h"
#include <fenv.h>
#include <pthread.h>

size_t most_tasks;

typedef void (*task_function)(void *arg, size_t i);

static void count_tasks(size_t count)
{
    most_tasks = count > most_tasks ? count : most_tasks;
}

static void run_backwards(void *opaque, size_t count, task_function task, void *arg)
{
    (void)opaque;
    count_tasks(count);
    while (count)
        task(arg, --count);
}

/* Some are left to the library, as where a pool has no memory for them. */
static void run_shuffled(void *opaque, size_t count, task_function task, void *arg)
{
    static rng order = {17}; /* another order each time */
    size_t *index = malloc(count * sizeof *index);

    (void)opaque;
    count_tasks(count);
    for (size_t i = 0; index && i < count; i++) {
        size_t j = rng_below(&order, i + 1);
        index[i] = i; /* j may be i */
        index[i] = index[j];
        index[j] = i;
    }
    for (size_t i = 0; index && i + i / 4 < count; i++)
        task(arg, index[i]);
    free(index);
}

typedef struct worker {
    size_t first, count;
    task_function task;
    void *arg;
    int rounding;
} worker;

#define WORKERS 4

static void *work(void *opaque)
{
    const worker *w = opaque;

    (void)fesetround(w->rounding);
    for (size_t i = w->first; i < w->count; i += WORKERS)
        w->task(w->arg, i);
    return NULL;
}

/* All at the same time. The threads have different rounding modes; the results must not depend on them. */
static void run_threads(void *opaque, size_t count, task_function task, void *arg)
{
    static const int rounding[WORKERS] = {FE_UPWARD, FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD};
    pthread_t thread[WORKERS];
    worker w[WORKERS];
    int started[WORKERS];

    (void)opaque;
    count_tasks(count);
    for (size_t i = 0; i < WORKERS; i++) {
        w[i] = (worker){i, count, task, arg, rounding[i]};
        started[i] = !pthread_create(&thread[i], NULL, work, &w[i]);
    }
    for (size_t i = 0; i < WORKERS; i++)
        if (started[i])
            pthread_join(thread[i], NULL);
        else {
            w[i].rounding = fegetround();
            work(&w[i]);
        }
}

const runner runners[] = {
    {"alone", {NULL, NULL}},
    {"backwards", {run_backwards, NULL}},
    {"shuffled", {run_shuffled, NULL}},
    {"threads", {run_threads, NULL}},
};
const size_t runner_count = COUNT(runners);
