/* SPDX-License-Identifier: MIT
 *
 * Messages of step 1 from objects that do not belong to the run.
 */
#ifndef TLC_SIM_STRANGER_H
#define TLC_SIM_STRANGER_H

#include "network.h"
#include "object.h"

/* A push of a worker, rank or node, as to owner 0. */
blob *stranger_push(run *r, const group *g, object_role role, uint32_t rank, uint64_t draw);

/* An answer of a server or rank. NULL: it owns nothing. */
blob *stranger_answer(run *r, const group *g, object_role role, uint32_t rank, uint64_t draw);

/* A hello of a node. */
blob *stranger_hello(run *r, const group *g, uint32_t rank, uint64_t draw);

/* A hello of a node that has another weight for its edge to `to`. NULL: its own weight is too small to make one. */
blob *stranger_row(run *r, const group *g, uint32_t rank, uint32_t to);

#endif
