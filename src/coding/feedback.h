/* SPDX-License-Identifier: MIT
 *
 * Error feedback (3LC, section 3.1): what a chunk does not send stays in the residual: residual = x - decoded. Without
 * a residual these functions do nothing.
 */
#ifndef TLC_FEEDBACK_H
#define TLC_FEEDBACK_H

#include "../stages/stage.h"

void tlc_feedback_symbols(const tlc_unit *u, const tlc_chunk *c);
void tlc_feedback_codes(const tlc_unit *u, const tlc_chunk *c);
/* The chunk has k members. c->values holds what they decode to. */
void tlc_feedback_members(const tlc_unit *u, const tlc_chunk *c, size_t k);
#endif
