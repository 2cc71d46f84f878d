/* SPDX-License-Identifier: MIT
 *
 * Blocks of a delta: each has the payload that is shortest for it; src/docs/format.md draws them.
 */
#ifndef TLC_DELTA_BLOCKS_H
#define TLC_DELTA_BLOCKS_H

#include "payload.h"

/* Writes the shortest payload. dst has room for the weights themselves, and all of it may be overwritten. Needs the
 * default float mode. */
tlc_delta_kind tlc_delta_block_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t *len);

/* Are these payloads of their weights, to the last bits? At most TLC_DELTA_TOGETHER blocks of one frame, with base or
 * without. *changed: the weights that differ in sparse blocks. */
int tlc_delta_blocks_check(const tlc_delta_block *blocks, size_t count, uint64_t *changed);

/* Makes the next weights of a window, whose first unit is at `weights`. The payload has passed the check. Where two
 * units share a byte, the window begins and ends with a byte. */
void tlc_delta_block_apply(const tlc_delta_block *block, tlc_delta_window window, uint8_t *weights);
#endif
