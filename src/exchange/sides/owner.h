/* SPDX-License-Identifier: MIT
 *
 * An owner of parts: a server, or a rank of an all-reduce. It averages the pushes of a step and makes the answer.
 */
#ifndef TLC_OWNER_H
#define TLC_OWNER_H

#include "round.h"
#include "sender.h"

typedef struct tlc_owner {
    tlc_setup *x;
    tlc_round round;
    tlc_sender answer;
    const float **mean; /* by part, as the answer counts them */
    float *means;       /* all of them */
    uint8_t *elsewhere; /* by part: the caller has the mean of this step */
    int failed;         /* the step failed here; `finding` tells why */
    tlc_finding finding;
} tlc_owner;

/* Makes the owner of the parts of `owner`. On failure, tlc_owner_free() is still needed. */
tlc_status tlc_owner_init(tlc_owner *o, tlc_setup *x, uint32_t owner);
void tlc_owner_free(tlc_owner *o);

/* Checks the frames of pushes in o->round. frames[p * workers + w]: that of worker w for part p, with its factor; len
 * 0: there is none, or the part shares a frame. On failure *finding tells whose is bad. */
tlc_status tlc_owner_frames(tlc_owner *o, tlc_message *frames, float *factors, tlc_finding *finding);

/* Keeps the frames of answers for these parts; len 0: the library makes it. Those of parts that share a frame are not
 * looked at. TLC_ERR_PARAM: one is not a frame of its part; none is kept. */
tlc_status tlc_owner_give(tlc_owner *o, const tlc_message *frames);

/* The parts p with elsewhere[p] != 0 are averaged by the caller in this step; NULL: none. Those that share a frame are
 * not looked at. */
void tlc_owner_leave(tlc_owner *o, const uint8_t *elsewhere);

/* Averages the pushes in o->round. Those of parts whose answers or means the caller made are not looked at. A push with
 * a bad frame leaves the round, or fails the step if all_or_nothing. The first fault is in o->finding. */
void tlc_owner_reduce(tlc_owner *o, int all_or_nothing);

/* Is there something to answer for every part: a frame that was given, a delta, or without deltas a mean?
 * TLC_ERR_PARAM: not for one. */
tlc_status tlc_owner_check(const tlc_owner *o, const float *const *delta);

/* Makes the answer to the round. delta: values for each part, NULL: the means. If a delta is not finite, the step
 * fails. */
tlc_message tlc_owner_answer(tlc_owner *o, uint64_t step, const float *const *delta);

tlc_status tlc_owner_part(const tlc_owner *o, size_t i, tlc_part *part);
#endif
