/* SPDX-License-Identifier: MIT
 *
 * A worker that waits spins for a while, which is enough between the sweeps of one call, and then sleeps.
 */
#include "threads.h"
#include "explain.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 4000 /* tens of microseconds */

typedef struct worker {
    pool *pool;
    size_t index; /* 0 is the caller */
    pthread_t thread;
} worker;

struct pool {
    size_t threads, started; /* started: workers */
    pthread_mutex_t mutex;
    pthread_cond_t posted, finished;
    atomic_uint jobs;      /* posted so far */
    atomic_size_t working; /* workers that have not finished the last job */
    bool quit;             /* with the last job workers end */
    size_t count;
    void (*task)(void *arg, size_t i);
    void *arg;
    worker workers[];
};

/* ---- cores ------------------------------------------------------------------------------------------------------ */

#if defined(__linux__) || defined(_WIN32)
static void stay_on(pthread_t thread, int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    (void)pthread_setaffinity_np(thread, sizeof set, &set); /* if that is not allowed, the scheduler may move it */
}

void cores_find(cores *c)
{
    cpu_set_t allowed;
    int own = sched_getcpu();

    c->count = 0;
    if (own < 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    c->core[c->count++] = own;
    for (int i = 0; i < CPU_SETSIZE && c->count < MAX_THREADS; i++) {
        if (i != own && CPU_ISSET((size_t)i, &allowed))
            c->core[c->count++] = i;
    }
    stay_on(pthread_self(), own);
}
#else
void cores_find(cores *c)
{
    c->count = 0;
}
#endif

/* ---- jobs ------------------------------------------------------------------------------------------------------- */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void do_share(const pool *p, size_t index)
{
    size_t end = p->count * (index + 1) / p->threads;

    for (size_t i = p->count * index / p->threads; i < end; i++)
        p->task(p->arg, i);
}

static void wait_for_job(pool *p, unsigned done)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->jobs, memory_order_acquire) != done)
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&p->mutex);
    while (atomic_load(&p->jobs) == done)
        pthread_cond_wait(&p->posted, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

static void *work(void *arg)
{
    const worker *w = arg;
    pool *p = w->pool;

    for (unsigned done = 0;; done++) {
        wait_for_job(p, done);
        if (p->quit)
            return NULL;
        do_share(p, w->index);
        if (atomic_fetch_sub(&p->working, 1) == 1) {
            pthread_mutex_lock(&p->mutex);
            pthread_cond_signal(&p->finished);
            pthread_mutex_unlock(&p->mutex);
        }
    }
}

static void post(pool *p)
{
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->jobs, 1);
    pthread_cond_broadcast(&p->posted);
    pthread_mutex_unlock(&p->mutex);
}

static void wait_for_workers(pool *p)
{
    for (int i = 0; i < SPINS; i++) {
        if (!atomic_load_explicit(&p->working, memory_order_acquire))
            return;
        pause_briefly();
    }
    pthread_mutex_lock(&p->mutex);
    while (atomic_load(&p->working))
        pthread_cond_wait(&p->finished, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

static void run(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    pool *p = opaque;

    p->count = count;
    p->task = task;
    p->arg = arg;
    atomic_store(&p->working, p->threads - 1);
    post(p);
    do_share(p, 0);
    wait_for_workers(p);
}

tlc_parallel pool_parallel(pool *p)
{
    return (tlc_parallel){.run = run, .opaque = p};
}

/* ---- the pool --------------------------------------------------------------------------------------------------- */

pool *pool_open(size_t threads, const cores *c, char *why)
{
    pool *p = calloc(1, sizeof *p + threads * sizeof p->workers[0]);

    if (!p) {
        explain(why, "out of memory");
        return NULL;
    }
    p->threads = threads;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->posted, NULL);
    pthread_cond_init(&p->finished, NULL);
    for (size_t i = 1; i < threads; i++) {
        worker *w = &p->workers[i];
        *w = (worker){.pool = p, .index = i};
        int error = pthread_create(&w->thread, NULL, work, w);
        if (error) {
            explain(why, "%zu threads: %s", threads, strerror(error));
            pool_close(p);
            return NULL;
        }
        p->started = i;
#if defined(__linux__) || defined(_WIN32)
        if (c->count) /* if there are too few, threads share cores evenly */
            stay_on(w->thread, c->core[i % c->count]);
#else
        (void)c;
#endif
    }
    return p;
}

void pool_close(pool *p)
{
    if (!p)
        return;
    p->quit = true;
    post(p);
    for (size_t i = 1; i <= p->started; i++)
        pthread_join(p->workers[i].thread, NULL);
    pthread_mutex_destroy(&p->mutex);
    pthread_cond_destroy(&p->posted);
    pthread_cond_destroy(&p->finished);
    free(p);
}
