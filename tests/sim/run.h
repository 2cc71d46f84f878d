/* SPDX-License-Identifier: MIT
 *
 * A run: one seed, with its memory, its network and what it found. A run ends early when a promise is broken.
 */
#ifndef TLC_SIM_RUN_H
#define TLC_SIM_RUN_H

#include "random.h"
#include "scenario.h"
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <threelc/gossip.h>

/* README.md explains E1 to E7. The rest of what exchange.h says is checked under CALLS. */
typedef enum promise { E1, E2, E3, E4, E5, E6, E7, CALLS, PROMISES } promise;

extern const char *const promise_names[PROMISES];    /* "E1" */
extern const char *const promise_meanings[PROMISES]; /* one line */

/* What a run found, for the table. */
typedef struct findings {
    uint64_t steps, failed, lost; /* steps that ended, steps that failed, values that were neither sent nor kept */
    uint64_t injected[FAULTS];
    uint64_t checks[PROMISES];
    int broken; /* 1: the next two say what */
    promise which;
    char text[500];
} findings;

/* How a run is played. Two plays of a seed have the same messages, results and states. */
typedef struct play {
    uint64_t order; /* seed of delays */
    uint64_t tasks; /* seed of who has tasks, in which order they run, and of ISAs */
    int reloads;    /* objects are replaced by new ones with their states, between steps */
} play;

struct network;
struct piece;

typedef struct run {
    scenario sc;
    play play;
    int verbose;
    findings *found;
    uint64_t digest, results; /* of all messages and states, which are the same on every machine; of all results */
    jmp_buf end;
    struct piece *pieces;      /* all memory of the run */
    int may_allocate;          /* an object is being made */
    uint64_t allocations_left; /* 0: any number; else the last of them fails */
    struct network *net;
    int raced; /* in one of the plays a worker came back too late for an answer that is kept as long as it was away */
    uint64_t task_runs, calls; /* how often tasks were run, and calls made in some float mode */
    int mode;                  /* the float mode of the call under way */
    uint64_t mode_bits;
} run;

/* ---- promises ---------------------------------------------------------------------------------------------------- */

#if defined(__GNUC__)
#define PRINTF_LIKE(text, first) __attribute__((format(printf, text, first)))
#else
#define PRINTF_LIKE(text, first)
#endif

_Noreturn void broken(run *r, promise which, const char *file, int line, const char *format, ...) PRINTF_LIKE(5, 6);
void tell_line(const char *format, ...) PRINTF_LIKE(1, 2);

/* must(r, E4, condition, "what is wrong, with numbers", ...) */
#define must(r, which, condition, ...)                                                                                 \
    ((r)->found->checks[which]++,                                                                                      \
     (condition) ? (void)0 : broken(r, which, strrchr("/" __FILE__, '/') + 1, __LINE__, __VA_ARGS__))

/* A line of a verbose run. */
#define tell(r, ...) ((r)->verbose ? tell_line(__VA_ARGS__) : (void)0)

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *take(run *r, size_t size); /* zeroed; freed with the run, if not before */
void give(run *r, void *p);
void give_all(run *r);

/* An allocator for objects: it checks that only `_create` allocates, and that nothing was written past the end. */
tlc_allocator counted(run *r);
void may_allocate(run *r, int may);     /* around calls that make or destroy an object */
size_t pieces_of_objects(const run *r); /* how many are not freed yet */

/* ---- digests ----------------------------------------------------------------------------------------------------- */

uint64_t digest_of(const void *p, size_t len);
typedef enum digest_kind { OF_PUSH, OF_ANSWER, OF_STATE, OF_RESULT } digest_kind;

/* Adds bytes to a digest of the run, as number `a`, `b` of a kind. */
void digest(run *r, digest_kind kind, uint64_t a, uint64_t b, const void *p, size_t len);

#endif
