/* SPDX-License-Identifier: MIT
 *
 * Messages of step 1 from objects that do not belong to the run: they have one tensor more, or another algorithm.
 */
#ifndef TLC_SIM_STRANGER_H
#define TLC_SIM_STRANGER_H

#include "network.h"
#include "object.h"

typedef enum strangeness { OTHER_TENSORS, OTHER_ALGORITHM, STRANGENESSES } strangeness;

/* A push of a worker or rank, as to owner 0. */
blob *stranger_push(run *r, const group *g, object_role role, uint32_t rank, strangeness how);

/* An answer of a server or rank. NULL: it owns nothing. */
blob *stranger_answer(run *r, const group *g, object_role role, uint32_t rank);

#endif
