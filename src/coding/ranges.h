/* SPDX-License-Identifier: MIT
 *
 * Work is cut into ranges, which threads share. Their number depends on the size alone, so results are the same for any
 * number of threads.
 */
#ifndef TLC_RANGES_H
#define TLC_RANGES_H

#include "../common/float_rules.h"
#include <threelc/threelc.h>

#define TLC_RANGES_MAX 64   /* ranges of a tensor; their results are on the stack */
#define TLC_RANGE_MIN 16384 /* the least values or bytes in a range: for fewer, another thread is not worth it */

typedef struct tlc_ranges {
    size_t total, count;
} tlc_ranges;

/* total in ranges of at least `least`. Without threads there is one range. */
static inline tlc_ranges tlc_ranges_split(const tlc_parallel *parallel, size_t total, size_t least)
{
    size_t count = parallel && parallel->run ? total / least : 1;
    return (tlc_ranges){total, count > TLC_RANGES_MAX ? TLC_RANGES_MAX : count ? count : 1};
}

static inline size_t tlc_range_start(const tlc_ranges *r, size_t i)
{
    size_t quotient = r->total / r->count, rest = r->total % r->count;
    return i * quotient + (i < rest ? i : rest);
}

/* The caller's threads, while a call computes. */
typedef struct tlc_threads {
    tlc_parallel *parallel, callers;
    tlc_float_mode mode; /* the caller's */
} tlc_threads;

/* As tlc_float_enter and _leave. parallel: a copy of this call. In between it has a run that calls the caller's in the
 * caller's float mode. So run computes in its own mode, and if it never returns, as with longjmp or a C++ exception, it
 * leaves in that mode, too. t must not move meanwhile. */
void tlc_threads_enter(tlc_threads *t, tlc_parallel *parallel);
void tlc_threads_leave(const tlc_threads *t);

/* Calls task(arg, i) for each i < count, at most TLC_RANGES_MAX; on the caller's threads if count is more than 1. */
void tlc_ranges_run(const tlc_parallel *parallel, size_t count, void (*task)(void *arg, size_t i), void *arg);
#endif
