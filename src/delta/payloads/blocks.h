/* SPDX-License-Identifier: MIT
 *
 * Blocks of a delta: each has the payload that is shortest for it; src/docs/format.md draws them.
 */
#ifndef TLC_DELTA_BLOCKS_H
#define TLC_DELTA_BLOCKS_H

#include "sparse.h"

/* Writes the shortest payload. dst has room for the weights themselves, and all of it may be overwritten. Needs the
 * default float mode. */
tlc_delta_kind tlc_delta_block_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t *len);

/* Finds the units that differ. Returns how many. */
uint64_t tlc_delta_compare(const tlc_delta_weights *w, const uint8_t *next, tlc_delta_masks *masks);

/* Is a payload of n units, of which k differ, sparse or raw? Else it may be dense. */
int tlc_delta_is_sparse(uint64_t k, size_t n);

/* The shortest payload that is not raw, of at most cap bytes, all of which may be overwritten. *len 0: none is that
 * short. masks: of what differs, if there is a base. */
tlc_delta_kind tlc_delta_block_code(const tlc_delta_weights *w, tlc_delta_masks *masks, const uint8_t *next,
                                    uint8_t *dst, size_t cap, size_t *len);

/* Are these payloads of their weights, to the last bits? At most TLC_DELTA_TOGETHER blocks of one frame, with base or
 * without. *changed: the weights that differ in sparse blocks. */
int tlc_delta_blocks_check(const tlc_delta_block *blocks, size_t count, uint64_t *changed);

/* Makes the next weights of a window, whose first unit is at `weights`. The payload has passed the check. Where two
 * units share a byte, the window begins and ends with a byte. */
void tlc_delta_block_apply(const tlc_delta_block *block, tlc_delta_window window, uint8_t *weights);

/* The units that differ from the base, of a sparse or dense payload that has one and has passed the check, some at a
 * time. Returns 0 if `take` has stopped it. */
int tlc_delta_block_changes(const tlc_delta_block *block, tlc_delta_take_changes take, void *arg);
#endif
