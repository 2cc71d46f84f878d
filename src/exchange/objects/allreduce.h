/* SPDX-License-Identifier: MIT
 *
 * An all-reduce: steps are in allreduce.c, its parts, codecs and states in allreduce_state.c.
 */
#ifndef TLC_ALLREDUCE_H
#define TLC_ALLREDUCE_H

#include "../sides/owner.h"
#include "../sides/pushing.h"
#include "../sides/receiver.h"

typedef enum tlc_allreduce_state {
    TLC_ALLREDUCE_IDLE,
    TLC_ALLREDUCE_PUSHED,
    TLC_ALLREDUCE_AVERAGED,
    TLC_ALLREDUCE_REDUCED
} tlc_allreduce_state;

struct tlc_allreduce {
    tlc_setup setup; /* comes first: tlc_setup_create */
    tlc_pushing push;
    tlc_owner owner; /* if it owns something */
    tlc_round round; /* with gather */
    tlc_receiver in;
    tlc_report report;
    tlc_exchange_stats stats;
    uint64_t step, history;
    tlc_allreduce_state state;
    int masks; /* the last push was taken */
};

static inline int tlc_is_gather(const tlc_allreduce *a)
{
    return a->setup.kind == TLC_EXCHANGE_GATHER;
}

/* Does this rank own parts, so that it gets pushes and answers them? */
static inline int tlc_allreduce_owns(const tlc_allreduce *a, uint32_t rank)
{
    return !tlc_is_gather(a) && rank < a->setup.owners && tlc_is_owner(&a->setup.ownership, rank);
}
#endif
