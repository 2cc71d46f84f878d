/* SPDX-License-Identifier: MIT
 *
 * The gradient and the result of a way without a codec: all values one after the other, as one message has them.
 */
#ifndef MPI_FLAT_H
#define MPI_FLAT_H

#include "way.h"

typedef struct flat {
    const way_options *o;
    size_t n;
    float *grads, *mean; /* n values */
    float *out;          /* all tensors at their offsets */
    double codec;        /* seconds, since the start */
} flat;

/* Collective; on failure too, it is to be closed. */
bool flat_open(flat *f, const way_options *o, char *why);
void flat_close(flat *f);
void flat_take(flat *f, const float *grads);
/* The mean, with tensors at their offsets. */
const float *flat_result(flat *f);
/* The computation of a step. */
void flat_compute(const flat *f);
#endif
