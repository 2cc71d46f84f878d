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
} threaded;

/* Each thread has its own float mode. */
static void run_threaded(void *arg, size_t i)
{
    const threaded *t = arg;
    tlc_float_mode mode = tlc_float_enter();

    t->task(t->arg, i);
    tlc_float_leave(mode);
}

void tlc_ranges_run(const tlc_parallel *parallel, size_t count, void (*task)(void *arg, size_t i), void *arg)
{
    threaded t = {task, arg};

    if (count > 1)
        parallel->run(parallel->opaque, count, run_threaded, &t);
    else
        task(arg, 0);
}
