/* SPDX-License-Identifier: MIT
 *
 * Error feedback (3LC, section 3.1): what an encoded chunk does not send stays in the residual, residual = x - decoded.
 * Without a residual these do nothing.
 */
#ifndef TLC_FEEDBACK_H
#define TLC_FEEDBACK_H

#include "../stages/stage.h"

void tlc_feedback_symbols(const tlc_unit *u, const tlc_chunk *c);
void tlc_feedback_codes(const tlc_unit *u, const tlc_chunk *c);
/* k members, and what they decode to in c->values. */
void tlc_feedback_members(const tlc_unit *u, const tlc_chunk *c, size_t k);
#endif
