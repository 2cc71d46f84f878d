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
    size_t *open;       /* groups of answers that do not share a frame; tlc_receiver_open */
    size_t open_count;
} tlc_receiver;

/* Checks the frames for the groups of an owner. On failure *finding tells which is bad, but not whose it is. */
tlc_status tlc_frames_check(const tlc_setup *x, tlc_direction direction, uint32_t owner, tlc_bundle_reader frames,
                            tlc_finding *finding);

/* scratch: how many values. */
void tlc_receiver_init(tlc_receiver *r, tlc_setup *x, uint32_t owners, size_t scratch);

/* For callers that take frames of answers: lists the open groups. */
void tlc_receiver_open(tlc_receiver *r, tlc_setup *x);

/* The part of open group i. */
tlc_status tlc_receiver_part(const tlc_receiver *r, size_t i, tlc_part *part);

/* Are there messages, and does every tensor with values have a place? If not, the pull is refused. takes_frames: only
 * those that share frames need one. */
tlc_status tlc_receiver_check(const tlc_receiver *r, const tlc_message *from, void *const *out, int takes_frames);

/* Reads the answer of an owner for `step`, and checks all its frames. */
void tlc_receiver_read(tlc_receiver *r, uint32_t owner, uint64_t step, tlc_message message);

/* Writes the answer of an owner, which is valid and did not fail. frames: for the frames of its open groups whose
 * tensors have no place; or NULL. Returns how many open groups it has. */
size_t tlc_receiver_write(const tlc_receiver *r, uint32_t owner, void *const *out, tlc_message *frames);

/* For an owner that wrote no answer: its frames have len 0. Returns how many open groups it has. */
size_t tlc_receiver_write_none(const tlc_receiver *r, uint32_t owner, tlc_message *frames);

/* Writes the mean of a round, whose frames are valid. Its group 0 is next. */
void tlc_receiver_write_mean(const tlc_receiver *r, tlc_round *round, void *const *out);
#endif
