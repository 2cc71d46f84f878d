/* SPDX-License-Identifier: MIT
 *
 * How large messages can be.
 */
#ifndef TLC_MESSAGE_BOUND_H
#define TLC_MESSAGE_BOUND_H

#include "message.h"

/* The largest push to an owner, or its answer, that any machine makes: with the codecs of the configuration or reserved
 * ones, in the dtype with the largest frames. SIZE_MAX: more than the address space. */
size_t tlc_message_bound(const tlc_setup *x, tlc_direction direction, uint32_t owner);

/* The largest answer of all owners. */
size_t tlc_message_answers_bound(const tlc_setup *x);
#endif
