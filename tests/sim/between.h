/* SPDX-License-Identifier: MIT
 *
 * What happens to an object between two steps: another codec, residuals scaled, a new object with the same state.
 */
#ifndef TLC_SIM_BETWEEN_H
#define TLC_SIM_BETWEEN_H

#include "object.h"

/* may_reload: nobody needs the messages that the object keeps. */
void between_steps(object **o, int may_reload);

#endif
