/* SPDX-License-Identifier: MIT
 *
 * The array of a .npy file, of any dtype.
 */
#ifndef DELTA_NPY_LAYOUT_H
#define DELTA_NPY_LAYOUT_H

#include "layout.h"

/* Adds the array. *first: where it begins. What follows it, as after a second call of numpy.save, is rest. Arrays in
 * Fortran order have one dimension here. Those of dtypes that deltas do not have, or of the other byte order, are
 * bytes, to the end of the file. */
bool npy_find(const uint8_t *bytes, uint64_t len, uint64_t size, layout *l, uint64_t *first, char *why);
#endif
