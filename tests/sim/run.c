/* SPDX-License-Identifier: MIT */
#include "run.h"

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
