/* SPDX-License-Identifier: MIT
 *
 * Runs of all-reduce. Each rank is driven as a program with this library would be: it pushes, sends, waits, reduces,
 * sends, pulls. allreduce.c has the events, allreduce_step.c the calls and their checks, allreduce_ends.c deaths and
 * what follows them.
 */
#ifndef TLC_SIM_ALLREDUCE_H
#define TLC_SIM_ALLREDUCE_H

#include "network.h"
#include "oracle.h"
#include "states.h"

typedef enum phase {
    BETWEEN, /* two steps */
    PUSHED,
    REDUCED,
    FINISHED, /* all steps */
    DEAD
} phase;

/* What came from a rank for one call. */
typedef struct slot {
    blob *bytes; /* NULL: nothing yet, or it was given up */
    int filled;
    condition condition;
    uint32_t tries;
    unsigned causes; /* CAUSE() that must be told for it; 0: the message is right */
    uint64_t got;    /* if it is of another step */
} slot;

enum { PUSHES, ANSWERS, PHASES };

typedef struct member {
    object *o;
    pushed push;
    phase phase;
    slot *in[PHASES];                  /* by rank */
    slot *early;                       /* pushes of the next step */
    blob **last[PHASES];               /* by rank: what came in the step before, or NULL */
    blob **mine;                       /* by rank: our push to it; NULL: none */
    uint64_t forged;                   /* bit i: this push has a bad frame */
    blob *answer, *older;              /* of this step and of the step before */
    float *owned_before, *owned_given; /* values of our parts: residuals before the step; what was answered */
    int reduced;                       /* our parts were reduced */
    uint8_t *out;                      /* results */
    float *momentum;
    checkpoint saved[2]; /* the last one, and the one before; step 0: there is none */
} member;

/* What all ranks must find in a step. */
typedef struct common {
    uint64_t step;
    blame fault[MOST_RANKS]; /* why it must fail: by rank at fault; causes 0: none */
    uint32_t faults;
    int overflow;                  /* with gather: a mean is not finite */
    uint64_t reduced, ended;       /* bit i: owner i reduced; rank i pulled */
    int failed;                    /* as the first one to pull says */
    tlc_outcome first;             /* its outcome */
    uint8_t taken[MOST_RANKS / 8]; /* who took part, if it does not fail */
    uint64_t results[3];           /* digests of results, by dtype */
    int has_results[3];
    float *exact; /* results in binary32, or NULL */
} common;

typedef struct reduction {
    run *run;
    group group;
    member *member;
    uint32_t ranks;
    common common[2];       /* of even and odd steps */
    const object **objects; /* of all members, for the oracle */
    const pushed **pushes;
    uint32_t generation;              /* how often the run went on in another reduction */
    uint64_t results[MOST_STEPS + 2]; /* by step: digests, to compare with when it is played again; 0: none */
} reduction;

void reduction_open(reduction *w, run *r, uint32_t ranks);
void reduction_close(reduction *w);
void reduction_place(reduction *w); /* after *w was moved to another place */

static inline common *common_of(reduction *w, uint64_t step)
{
    return &w->common[step % 2];
}

static inline int is_owner(const reduction *w, uint32_t rank)
{
    return w->group.begin[rank] < w->group.begin[rank + 1];
}

static inline int is_gathered(const reduction *w)
{
    return w->run->sc.family == FAMILY_GATHERED;
}

/* ---- the calls of a step, with their checks ---------------------------------------------------------------------- */

void step_push(reduction *w, member *m);
void step_reduce(reduction *w, member *m);
/* After tlc_allreduce_average: the optimizer of the owner makes changes of the means, which are answered. */
void step_answer(reduction *w, member *m, tlc_message *answer);
/* Returns 0 if a message was bad: it must be fetched again. */
int step_pull(reduction *w, member *m);

/* Calls that must fail in this phase. */
void refuse_calls(const reduction *w, member *m);

/* Forgets the step before last, if this is the first look at the step. */
void begin_common(reduction *w, uint64_t step);

/* Why the step must fail. */
void add_common_fault(reduction *w, uint64_t step, blame b);

/* Checks that the outcome blames one of the faults, by rank. */
tlc_outcome check_blame(const reduction *w, const object *o, tlc_status status, const blame *faulty, uint32_t faults);

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* Does this rank die now? where: 0 before a push, 1 after it, 2 after a reduce. */
int dies(const reduction *w, const member *m, int where);

/* Saves all states, and perhaps loads them in another group. */
void finish(reduction *w);

/* Nothing is under way, as somebody is dead. Goes on in a new reduction. */
void go_on(reduction *w);

#endif
