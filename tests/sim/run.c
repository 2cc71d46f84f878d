/* SPDX-License-Identifier: MIT */
#include "run.h"
#include "drivers.h"
#include "network.h"
#include <fenv.h>

const char *const promise_names[PROMISES] = {"E1", "E2", "E3", "E4", "E5", "E6", "E7", "calls"};
const char *const promise_meanings[PROMISES] = {
    "a failed call changes nothing",
    "when a step fails, all who wait know in the same step",
    "nothing is written outside of arguments",
    "results are the same bits on all ranks",
    "no allocation after create",
    "nothing is lost",
    "the same bytes for any order of arrival, tasks and ISAs",
    "statuses, outcomes, counters, answers that are kept, states",
};

void tell_line(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    printf("  ");
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
}

void broken(run *r, promise which, const char *file, int line, const char *format, ...)
{
    va_list arguments;
    size_t used = (size_t)snprintf(r->found->text, sizeof r->found->text, "%s:%d: ", file, line);

    va_start(arguments, format);
    vsnprintf(r->found->text + used, sizeof r->found->text - used, format, arguments);
    va_end(arguments);
    may_allocate(r, 0);
    r->found->broken = 1;
    r->found->which = which;
    longjmp(r->end, 1);
}

int run_play(run *r, const play *p)
{
    r->play = *p;
    r->blocks = NULL;
    may_allocate(r, 0);
    r->task_runs = r->calls = 0;
    r->digest = r->results = 0;
    if (!setjmp(r->end)) {
        if (has_servers(&r->sc))
            run_servers(r);
        else if (r->sc.family == FAMILY_GOSSIP)
            run_gossip(r);
        else
            run_allreduce(r);
        must(r, E5, blocks_of_objects(r) == 0, "%zu blocks of objects were not freed", blocks_of_objects(r));
    }
    (void)fesetenv(FE_DFL_ENV); /* a run may end in the middle of a call */
    give_all(r);
    return !r->found->broken;
}
