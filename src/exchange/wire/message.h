/* SPDX-License-Identifier: MIT
 *
 * Messages of the exchange: their heads, written and read. src/docs/format.md draws them.
 */
#ifndef TLC_MESSAGE_H
#define TLC_MESSAGE_H

#include "../plan/setup.h"
#include <threelc/bundle.h>

/* A message, without fingerprint and checksum. */
typedef struct tlc_head {
    tlc_phase phase;
    int failed, absent;
    uint32_t sender;
    uint32_t receiver; /* of a push that is not for all */
    uint64_t step;
    tlc_finding finding;  /* reason NONE: there is none */
    double weight;        /* of a push */
    const uint8_t *taken; /* of an answer that did not fail */
    tlc_message bundle;   /* unless failed or absent; of a hello: all that follows the step */
} tlc_head;

/* The bytes that a message needs before its bundle, at most. */
size_t tlc_message_room(const tlc_setup *x, tlc_phase phase);

/* Writes a message around its bundle. The bundle lies in a buffer, with the room of its phase before it and 4 bytes
 * after it; the message begins where its head fits in. bundle.data must be set even if there is no bundle. */
tlc_message tlc_message_write(const tlc_setup *x, const tlc_head *head);

/* What a message should be. */
typedef struct tlc_expected {
    tlc_phase phase;
    uint32_t sender; /* TLC_NOBODY: any worker */
    uint64_t step;   /* 0: any */
} tlc_expected;

/* Reads and checks a message, but not the frames in its bundle, nor what is in a hello. On failure *finding says what
 * is wrong, with the sender as far as it is known; else its reason is NONE. */
tlc_status tlc_message_read(const tlc_setup *x, const tlc_expected *expected, tlc_message message, tlc_head *head,
                            tlc_bundle_reader *frames, tlc_finding *finding);

/* How many frames a push to this owner has, or its answer. */
static inline size_t tlc_message_frames(const tlc_setup *x, tlc_phase phase, uint32_t owner)
{
    const tlc_grouping *g = &x->ownership.grouping[phase == TLC_PHASE_PUSH ? TLC_PUSH : TLC_PULL];
    return g->begin[owner + 1] - g->begin[owner];
}

/* Can a push have this weight? */
int tlc_weight_valid(double weight);

/* Are these the same bytes? */
int tlc_message_equal(tlc_message a, tlc_message b);

/* What a message that was checked adds to a history: histories are sums. */
uint64_t tlc_message_history(tlc_message message);
#endif
