/* SPDX-License-Identifier: MIT
 *
 * Frames with digests of blocks, applied so that a call that ends at any moment can be completed.
 */
#ifndef TLC_DELTA_REPAIR_H
#define TLC_DELTA_REPAIR_H

#include "reading.h"

/* Makes the changes of a block in rising order, with one store for each weight, from the `made`-th on; `made` is 0 if
 * the payload has no base. It has passed the check. */
void tlc_delta_apply_in_order(const tlc_delta_block *block, uint8_t *weights, size_t made);

/* How many blocks of weights (r->base) are at the result, at the base, between them, and none of these. The frame has
 * digests of blocks, and its blocks have passed the check. */
void tlc_delta_count_states(tlc_delta_reading *r, uint64_t count[4]);
#endif
