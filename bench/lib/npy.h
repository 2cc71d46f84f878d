/* SPDX-License-Identifier: MIT
 *
 * Reads arrays of 16- and 32-bit floats, row by row: .npy files (versions 1.0, 2.0 and 3.0, in either order; 'f2',
 * 'f4', or 'u2' and 'V2' for the bits of bfloat16, which NumPy lacks; of either byte order), and raw files
 * (little-endian, no header). Files may hold any bytes: the shape in a header is used only if the file has as many
 * values. More may follow the array, as after two calls of numpy.save; as NumPy does, only the first array is read.
 *
 * A function that fails returns false and writes the reason, without the name of the file, to why (WHY_SIZE bytes,
 * explain.h).
 */
#ifndef BENCH_NPY_H
#define BENCH_NPY_H

#include "npy_header.h"
#include <stdio.h>

typedef struct npy_file {
    FILE *stream;
    npy_header header;
    uint64_t next;         /* row */
    unsigned char *values; /* all of them, if they are in Fortran order */
} npy_file;

/* Opens a .npy file. After a failure there is nothing to close. */
bool npy_open(npy_file *file, const char *path, char *why);

/* Whether the dtype of a .npy file is all that keeps it from being read. descr (NPY_DESCR_TEXT + 2 bytes): what it
 * is. */
bool npy_has_other_dtype(const char *path, char *descr);

/* Opens a raw file of values of this dtype, which must not be empty. row_values: values in a row; 0: all of them. */
bool npy_open_raw(npy_file *file, const char *path, tlc_dtype dtype, uint64_t row_values, char *why);

/* Reads the next row, cols * width bytes, into row, in C order and in the byte order of this machine. */
bool npy_read_row(npy_file *file, void *row, char *why);

void npy_close(npy_file *file);
#endif
