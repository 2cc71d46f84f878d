/* SPDX-License-Identifier: MIT
 *
 * Takes answers, and writes what they say to the caller's tensors.
 */
#ifndef TLC_RECEIVER_H
#define TLC_RECEIVER_H

#include "round.h"

/* What came from one owner. */
typedef struct tlc_answer {
    tlc_status status; /* of its message */
    tlc_finding finding;
    tlc_head head;
    tlc_bundle_reader frames;
} tlc_answer;

typedef struct tlc_receiver {
    const tlc_setup *x;
    tlc_answer *answer; /* by owner */
    float *scratch;     /* the values of a group */
} tlc_receiver;

/* Checks the frames for the groups of an owner. On failure *finding tells which is bad, but not whose it is. */
tlc_status tlc_frames_check(const tlc_setup *x, tlc_direction direction, uint32_t owner, tlc_bundle_reader frames,
                            tlc_finding *finding);

/* scratch: how many values. */
void tlc_receiver_init(tlc_receiver *r, tlc_setup *x, uint32_t owners, size_t scratch);

/* Are there messages, and does every tensor with values have a place? If not, the pull is refused. */
tlc_status tlc_receiver_check(const tlc_receiver *r, const tlc_message *from, void *const *out);

/* Reads the answer of an owner for `step`, and checks all its frames. */
void tlc_receiver_read(tlc_receiver *r, uint32_t owner, uint64_t step, tlc_message message);

/* Writes the answer of an owner, which is valid and did not fail. */
void tlc_receiver_write(const tlc_receiver *r, uint32_t owner, void *const *out);

/* Writes the mean of a round, whose frames are valid. Its group 0 is next. */
void tlc_receiver_write_mean(const tlc_receiver *r, tlc_round *round, void *const *out);
#endif
