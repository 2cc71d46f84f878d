/* SPDX-License-Identifier: MIT */
#include "ranges.h"

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
