/* SPDX-License-Identifier: MIT
 *
 * Cuts a model into pieces: consecutive tensors that one handle exchanges.
 */
#ifndef MPI_PIECES_H
#define MPI_PIECES_H

#include "../lib/shapes.h"

typedef struct piece {
    size_t first, count; /* tensors */
} piece;

/* At most `count` pieces of about the same number of values; 0: one for each tensor. *made: how many; at least 1. The
 * caller frees them. NULL: no memory. */
piece *pieces_cut(const shape_list *model, size_t count, size_t *made);
#endif
