/* SPDX-License-Identifier: MIT
 *
 * Blocks in which many weights differ, or that have no base; src/docs/format.md draws a payload.
 */
#ifndef TLC_DELTA_DENSE_H
#define TLC_DELTA_DENSE_H

#include "payload.h"

/* Returns the bytes of the payload, or 0 if it would be longer than cap: then dst is as it was. */
size_t tlc_delta_dense_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t cap);
int tlc_delta_dense_check(const tlc_delta_weights *w, const uint8_t *src, size_t len);
void tlc_delta_dense_apply(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_window window,
                           uint8_t *weights);

/* The units that differ from the base, some at a time. The payload has passed the check. Returns 0 if `take` has
 * stopped it. */
int tlc_delta_dense_changes(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_take_changes take,
                            void *arg);
#endif
