/* SPDX-License-Identifier: MIT
 *
 * What a training computes, as far as the exchange sees it: arithmetic for a given time.
 */
#ifndef MPI_COMPUTE_H
#define MPI_COMPUTE_H

#include "mpi_options.h"
#include "../shapes.h"

/* The seconds of --compute that a tensor has. */
double compute_share(const mpi_options *o, const shape_list *model, size_t i);

/* Multiplies and adds for so many seconds. */
void compute_for(double seconds);
#endif
