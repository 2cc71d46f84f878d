/* SPDX-License-Identifier: MIT
 *
 * What a training computes, as far as the exchange sees it: it takes time, tensor by tensor.
 *
 * A rank that has to leave its core to another one computes meanwhile, as on a machine of its own. Only the time of
 * other calls comes on top.
 */
#ifndef MPI_COMPUTE_H
#define MPI_COMPUTE_H

#include "../lib/shapes.h"
#include "mpi_options.h"

typedef struct compute_clock {
    const mpi_options *o;
    const shape_list *model;
    double start;
    double due;    /* seconds that the tensors so far take */
    double others; /* seconds in other calls since the start */
    double left;   /* when it went to them */
} compute_clock;

/* The computation of a step begins. */
compute_clock compute_begin(const mpi_options *o, const shape_list *model);

/* Computes the gradient of a tensor, and leaves for other calls. */
void compute_tensor(compute_clock *c, size_t i);
#endif
