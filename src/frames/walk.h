/* SPDX-License-Identifier: MIT
 *
 * Goes over the units of a frame: its blocks, or the tensor if there are no blocks.
 */
#ifndef TLC_WALK_H
#define TLC_WALK_H

#include "../coding/coder.h"
#include "frame.h"

typedef struct tlc_walk {
    tlc_coding coding; /* of the present unit, for decoding */
    const tlc_frame *frame;
    uint64_t units, next;      /* how many there are; the next one */
    size_t entry, offset, len; /* bytes of a table entry; where the present payload is, and its length */
} tlc_walk;

/* Starts before the first unit. The frame has values. */
void tlc_walk_start(tlc_walk *w, const tlc_kernels *k, const tlc_frame *f, const tlc_output *output);

/* Does the block table fit the payload? */
int tlc_walk_has_table(const tlc_walk *w);

/* Goes to the next unit, which there is. The table fits. coding.payload and coding.len are set if the unit lies within
 * the payload; else it returns 0. */
int tlc_walk_next(tlc_walk *w);

/* Goes past the blocks before block `to`. They are within the payload. */
void tlc_walk_skip(tlc_walk *w, uint64_t to);

/* Where unit i begins, in values. */
static inline uint64_t tlc_walk_first(const tlc_walk *w, uint64_t i)
{
    return i * w->frame->codec.block;
}
#endif
