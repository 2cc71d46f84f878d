/* SPDX-License-Identifier: MIT */
#include "ranges.h"

/* ---- the caller's threads ---------------------------------------------------------------------------------------- */

static void run_outside(void *opaque, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    const tlc_threads *t = opaque;

    tlc_float_leave(t->mode);
    t->callers.run(t->callers.opaque, count, task, arg);
    (void)tlc_float_enter();
}

void tlc_threads_enter(tlc_threads *t, tlc_parallel *parallel)
{
    *t = (tlc_threads){parallel, *parallel, tlc_float_enter()};
    if (parallel->run)
        *parallel = (tlc_parallel){run_outside, t};
}

void tlc_threads_leave(const tlc_threads *t)
{
    *t->parallel = t->callers;
    tlc_float_leave(t->mode);
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */

typedef struct threaded {
    void (*task)(void *arg, size_t i);
    void *arg;
    unsigned char began[TLC_RANGES_MAX]; /* by task; each is written by its own thread */
} threaded;

/* Each thread has its own float mode. */
static void run_threaded(void *arg, size_t i)
{
    threaded *t = arg;
    tlc_float_mode mode = tlc_float_enter();

    t->began[i] = 1;
    t->task(t->arg, i);
    tlc_float_leave(mode);
}

void tlc_ranges_run(const tlc_parallel *parallel, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    threaded t = {task, arg, {0}};

    if (count <= 1) {
        task(arg, 0);
        return;
    }
    parallel->run(parallel->opaque, count, run_threaded, &t);
    for (size_t i = 0; i < count; i++) /* what the caller's run had no memory for */
        if (!t.began[i])
            run_threaded(&t, i);
}
