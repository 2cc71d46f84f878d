/* SPDX-License-Identifier: MIT */
#ifndef MPI_VERDICT_H
#define MPI_VERDICT_H

#include "way.h"

/* Collective, after the step of a round: whether all ranks have the same bits as a result, and, where the way says how
 * near it is, that it is the mean of the gradients of all workers. */
bool verdict(const way_options *o, void *way, size_t round, char *why);
#endif
