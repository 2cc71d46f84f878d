/* SPDX-License-Identifier: MIT
 *
 * The pushes of a step, at one who decodes them: who pushed, who counts, and the weighted sum of what they pushed.
 */
#ifndef TLC_ROUND_H
#define TLC_ROUND_H

#include "../wire/message.h"

/* The push of one worker. */
typedef struct tlc_arrival {
    int came;            /* its message was accepted; it may say failed or absent */
    int taken;           /* its frames count */
    tlc_message message; /* the caller's bytes */
    tlc_head head;
    tlc_bundle_reader frames; /* from the first frame on */
    tlc_bundle_reader next;   /* from the frame of the next group on */
} tlc_arrival;

typedef struct tlc_round {
    const tlc_setup *x;
    uint32_t owner;       /* of the parts */
    uint32_t came, taken; /* how many */
    tlc_arrival *push;    /* by worker */
    uint8_t *bits;        /* who is taken: TLC_BITMAP bytes */
    double weight;        /* of all that are taken */
    size_t group;         /* the next one, as the owner's groups count */
    /* the frames of one group */
    tlc_message *frame;
    float *factor;
    uint32_t *from;
    size_t count;
} tlc_round;

void tlc_round_init(tlc_round *r, tlc_setup *x, uint32_t owner);
void tlc_round_clear(tlc_round *r);

/* Enters a push that was read. */
void tlc_round_enter(tlc_round *r, tlc_message message, const tlc_head *head, const tlc_bundle_reader *frames);

/* Takes a push out again. */
void tlc_round_leave(tlc_round *r, uint32_t worker);

/* Begins to go over the groups. Call it after pushes have come or left. */
void tlc_round_start(tlc_round *r);

/* The frames of the next group: r->frame, factor, from, count. */
void tlc_round_next(tlc_round *r);

/* Are the frames of this group valid? If not, *finding tells whose is not. */
tlc_status tlc_round_check(const tlc_round *r, tlc_finding *finding);

/* Is the sum or mean of the frames of this group finite, which are valid? scratch: room for it. */
int tlc_round_finite(const tlc_round *r, float *scratch);

/* sum = the weighted sum or mean of the frames of this group, which are valid. */
void tlc_round_add(const tlc_round *r, float *sum);

/* The group that tlc_round_next() has led to. */
static inline const tlc_ownership_group *tlc_round_group(const tlc_round *r)
{
    const tlc_grouping *g = &r->x->ownership.grouping[TLC_PUSH];
    return &g->groups[g->begin[r->owner] + r->group - 1];
}

/* The first tensor of this group. */
static inline size_t tlc_round_tensor(const tlc_round *r)
{
    const tlc_ownership *own = &r->x->ownership;
    return own->parts[own->grouping[TLC_PUSH].order[tlc_round_group(r)->begin]].tensor;
}

static inline size_t tlc_round_groups(const tlc_round *r)
{
    return tlc_message_frames(r->x, TLC_PHASE_PUSH, r->owner);
}
#endif
