/* SPDX-License-Identifier: MIT
 *
 * How the objects of a play compute: on which ISA, in which order tasks run, in which float mode of the caller. Results
 * must not depend on it.
 */
#ifndef TLC_SIM_TASKS_H
#define TLC_SIM_TASKS_H

#include "run.h"

tlc_isa isa_of(const run *r, unsigned role, uint32_t rank);

/* Half of the objects run their tasks in another order, on this thread. */
tlc_parallel tasks_of(run *r, unsigned role, uint32_t rank);

/* Some calls are made in another float mode, which they must leave as it was. */
#define IN_MODE(r, call) end_mode(r, (begin_mode(r), (call)))
void begin_mode(run *r);
tlc_status end_mode(run *r, tlc_status status);

#endif
