/* SPDX-License-Identifier: MIT
 *
 * Which states of a run are not among those that were given.
 */
#ifndef TLC_MISSING_STATES_H
#define TLC_MISSING_STATES_H

#include "../plan/refusal.h"

/* States that were checked: of ranks below `ranks`. A rank may have several, of objects with different tensors. */
typedef struct tlc_given_states {
    const tlc_message *states;
    size_t count;
    uint64_t ranks; /* of the run */
    uint32_t only;  /* the rank whose state is the only one that is needed; TLC_NOBODY: those of all are */
    uint64_t (*rank_of)(tlc_message state);
} tlc_given_states;

/* The states of TLC_STATES_WINDOW ranks, without memory of their own. */
enum { TLC_STATES_WINDOW = 1024 };
typedef struct tlc_states_window {
    uint64_t from;                   /* the first of these ranks */
    uint64_t next;                   /* the first rank after them that has a state; UINT64_MAX: none has */
    size_t state[TLC_STATES_WINDOW]; /* by rank - from: its first state, + 1; 0: it has none */
} tlc_states_window;
void tlc_states_look(const tlc_given_states *given, uint64_t from, tlc_states_window *w);

/* How many ranks have a state. */
uint64_t tlc_states_ranks(const tlc_given_states *given);

/* Are all states there that are needed? If not, the call is refused, unless `lost`. */
tlc_status tlc_states_check(const tlc_setup *x, const tlc_given_states *given, int lost);

/* The end of loading states of `step`: what was not found, as in the notes, and which states are lost. missing: the
 * first tensor that is in no state, or TLC_ALL. */
void tlc_states_tell(const tlc_setup *x, const tlc_given_states *given, const tlc_report *notes, uint64_t step,
                     size_t missing);
#endif
