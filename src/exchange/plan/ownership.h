/* SPDX-License-Identifier: MIT
 *
 * Which owner has what, and which parts share a frame. It is planned once, from sizes alone, so all machines plan the
 * same.
 *
 * A part is a tensor, or a piece of a large one, that has one owner. A group is the parts whose values travel in one
 * frame: one part, or all small ones of an owner. Pushes and answers have groups of their own.
 */
#ifndef TLC_OWNERSHIP_H
#define TLC_OWNERSHIP_H

#include "memory.h"

typedef enum tlc_direction { TLC_PUSH = 0, TLC_PULL = 1 } tlc_direction;

/* What the plan must know of a tensor. */
typedef struct tlc_ownership_tensor {
    size_t n;
    uint64_t cost;   /* the bytes that its owner will handle, about */
    int small[2];    /* by direction: its values share a frame */
    uint32_t pusher; /* 0: all workers push it; else the only one that does, + 1 */
} tlc_ownership_tensor;

typedef struct tlc_ownership_part {
    size_t tensor, first, n; /* values first .. first + n - 1 */
    uint32_t owner;
} tlc_ownership_part;

typedef struct tlc_ownership_group {
    size_t begin, count; /* its parts are order[begin .. begin + count - 1] */
    size_t n;            /* values */
    uint32_t pusher;     /* of its tensors; 0 in answers */
    int shared;          /* the parts are small ones, even if it is only one */
} tlc_ownership_group;

typedef struct tlc_grouping {
    size_t *order; /* parts in the order of frames */
    tlc_ownership_group *groups;
    size_t *begin; /* owner i has groups begin[i] .. begin[i + 1] - 1 */
    size_t count;
    size_t shared_n; /* values of the largest shared group */
} tlc_grouping;

typedef struct tlc_ownership {
    tlc_ownership_part *parts; /* by owner, then by tensor */
    size_t *begin;             /* owner i has parts begin[i] .. begin[i + 1] - 1 */
    size_t count;
    size_t *by_tensor;        /* all parts, by tensor, then by owner, which is by their first value, too */
    size_t *of_tensor;        /* tensor i has parts by_tensor[of_tensor[i]] .. by_tensor[of_tensor[i + 1] - 1] */
    tlc_grouping grouping[2]; /* by direction */
} tlc_ownership;

/* Plans for this many owners. Tensors of fewer than split_n values are dealt out whole, the most costly first, each to
 * the owner with the least cost. The others are laid end to end and cut, in multiples of 16 values, so that all owners
 * have the same cost in the end. A tensor is cut only where the stretch of an owner ends: each part has a scale of its
 * own, so more parts make more bytes. Tensors without values have no part. Fails as tlc_memory_take does: the status is
 * in m. */
void tlc_ownership_plan(tlc_ownership *own, const tlc_ownership_tensor *tensors, size_t count, uint32_t owners,
                        size_t split_n, tlc_memory *m);

/* Has this owner anything? */
static inline int tlc_is_owner(const tlc_ownership *own, uint32_t owner)
{
    return own->begin[owner] < own->begin[owner + 1];
}
#endif
