/* SPDX-License-Identifier: MIT
 *
 * The codec calls that one machine of a fleet makes in a step, made without an exchange: the same frames, with
 * residuals and means in the same memory. The rest of the time is that of the exchange.
 */
#ifndef BENCH_DIRECT_H
#define BENCH_DIRECT_H

#include "../lib/fleet.h"

/* What shares a frame: a part, or all small ones of an owner. */
typedef struct direct_group {
    size_t owner, part, count; /* parts[part .. part + count - 1] */
    size_t n;                  /* values */
    size_t capacity;           /* of a frame */
    bool together;             /* small parts; their values lie one after the other in `together` */
    bool averaged;             /* by this machine */
    tlc_ctx *push, *answer;    /* NULL: the machine does not send it */
    size_t made;               /* bytes of the last frame that `push` made */
    float *mean;               /* n values, in the memory of the fleet; NULL: there is no answer */
    tlc_message *frames;       /* by rank: what was pushed; NULL: another machine averages it */
    tlc_message sent;          /* what the exchange of this machine pushed, */
    tlc_message answered;      /* and what was answered */
} direct_group;

/* A machine: rank 0, or the server. */
typedef struct direct {
    const fleet *fleet;
    fleet_part *parts; /* in the order of groups */
    direct_group *groups;
    size_t part_count, group_count;
    size_t frame_bytes, message_bytes; /* of what was found in messages since the start */
    float *weights;                    /* by rank */
    unsigned char *pushes, *answers;   /* frames, one after the other */
    float *together;
    float *kept; /* residuals of answers, one group after the other */
} direct;

/* Where values lie decides about speed, so its calls use the residuals and means of the fleet: whoever pushes or
 * answers first changes what the other finds. Whether or not it succeeds, it is to be closed. */
bool direct_open(direct *d, const fleet *f, char *why);
void direct_close(direct *d);

/* Before the calls: puts the values of small parts together; finds the frames in the messages of the fleet. */
void direct_gather(direct *d, const float *grads);
bool direct_find_pushes(direct *d, char *why);
bool direct_find_answers(direct *d, char *why);

/* Residuals of answers: keeps them, and puts them back. */
void direct_keep_residuals(direct *d);
void direct_restore_residuals(const direct *d);

/* The calls. grads, out: of all tensors at their offsets. direct_add averages what was pushed, direct_answer compresses
 * the means. */
bool direct_push(direct *d, const float *grads, char *why);
bool direct_add(direct *d, char *why);
bool direct_answer(direct *d, char *why);
bool direct_pull(direct *d, float *out, char *why);

/* After direct_push and direct_find_pushes: whether the frames are those that the exchange pushed. */
bool direct_check_pushes(const direct *d, char *why);
/* The same for direct_answer and direct_find_answers. */
bool direct_check_answers(const direct *d, char *why);
/* Puts the values of small parts where they belong, after direct_pull. */
void direct_scatter(const direct *d, float *out);
#endif
