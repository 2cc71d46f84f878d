/* SPDX-License-Identifier: MIT
 *
 * An all-reduce: steps are in allreduce.c, what owners do in allreduce_reduce.c, its parts, codecs and states in
 * allreduce_state.c.
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

/* What a call found. Returns the status. */
tlc_status tlc_allreduce_tell(tlc_allreduce *a, tlc_status status, const tlc_finding *finding);
void tlc_allreduce_tell_taken(tlc_allreduce *a, const uint8_t *taken);

/* Reads the pushes of all ranks into a round. *finding: the failure of the lowest rank: its message is at fault, or
 * says that the rank failed. *bad: that of the first message at fault. */
void tlc_allreduce_read_pushes(tlc_allreduce *a, tlc_round *round, const tlc_message *from, tlc_finding *finding,
                               tlc_finding *bad);

/* The bytes that others sent. */
uint64_t tlc_allreduce_received(const tlc_allreduce *a, const tlc_message *from);
#endif
