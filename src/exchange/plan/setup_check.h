/* SPDX-License-Identifier: MIT
 *
 * Is the configuration as its kind of exchange needs it?
 */
#ifndef TLC_SETUP_CHECK_H
#define TLC_SETUP_CHECK_H

#include "setup.h"

/* Checks the configuration: TLC_ERR_PARAM, TLC_ERR_UNSUPPORTED. */
tlc_status tlc_setup_check(const tlc_setup *x);
#endif
