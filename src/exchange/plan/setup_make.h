/* SPDX-License-Identifier: MIT
 *
 * A setup is made of what the caller gives.
 */
#ifndef TLC_SETUP_MAKE_H
#define TLC_SETUP_MAKE_H

#include "setup.h"

/* Takes memory for an object of `size` bytes, which begins with its setup: the caller's configuration and tensors,
 * checked, and the plan of who owns what. The rest is 0. kind ALLREDUCE becomes GATHER if the configuration says so.
 * On failure *report tells why, and nothing needs to be freed. The object's report and step are still to be set. */
tlc_status tlc_setup_create(void **object, size_t size, const tlc_exchange_config *cfg, tlc_exchange_kind kind,
                            tlc_role role, uint32_t rank, const tlc_tensor *tensors, size_t count, tlc_report *report);

/* The end of a call that makes an object. x: its setup; NULL if there is none. Tells the caller why, if status is an
 * error, or else if the codec of answers starves. Returns the status. */
tlc_status tlc_setup_end(const tlc_exchange_config *cfg, const tlc_setup *x, tlc_status status, tlc_report *report);
#endif
