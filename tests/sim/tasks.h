/* SPDX-License-Identifier: MIT
 *
 * How the objects of a play compute: on which ISA, and in which order tasks run. Results must not depend on it.
 */
#ifndef TLC_SIM_TASKS_H
#define TLC_SIM_TASKS_H

#include "run.h"

tlc_isa isa_of(const run *r, unsigned role, uint32_t rank);

/* Half of the objects run their tasks in another order, on this thread. */
tlc_parallel tasks_of(run *r, unsigned role, uint32_t rank);

#endif
