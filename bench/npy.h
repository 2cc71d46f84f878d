/* SPDX-License-Identifier: MIT
 *
 * Reads arrays of 16- and 32-bit floats, row by row: .npy files (versions 1.0, 2.0 and 3.0; in C order; 'f2', 'f4', or
 * 'u2' and 'V2' for the bits of bfloat16, which NumPy lacks; '<' or '>'), and raw files (little-endian, no header).
 * Files may hold any bytes: the shape in a header is used only if it agrees with the size of the file.
 *
 * A function that fails returns false and writes the reason, without the name of the file, to why (WHY_SIZE bytes,
 * explain.h).
 */
#ifndef BENCH_NPY_H
#define BENCH_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <threelc/threelc.h>

/* The most bytes that npy_parse_header needs: magic, version, length and the longest header that it accepts. */
#define NPY_HEADER_MAX (12 + 65535)

typedef struct npy_header {
    size_t offset;  /* of the first value, from the start of the file */
    unsigned dims;  /* at least 1 */
    uint64_t rows;  /* 1 for a 1-D array, else the first dimension */
    uint64_t cols;  /* values in a row: the product of the other dimensions */
    unsigned width; /* bytes in a value, 2 or 4 */
    tlc_dtype dtype;
    bool big_endian;
} npy_header;

typedef struct npy_file {
    FILE *stream;
    npy_header header;
} npy_file;

/* bytes: the first len bytes of a file of file_size bytes; len is file_size or at least NPY_HEADER_MAX. On success
 * offset + rows * cols * width is exactly file_size, and the size of a row fits a size_t. */
bool npy_parse_header(const void *bytes, size_t len, uint64_t file_size, npy_header *header, char *why);

/* Opens a .npy file. After a failure there is nothing to close. */
bool npy_open(npy_file *file, const char *path, char *why);

/* Opens a raw file of values of this dtype, which must not be empty. row_values: values in a row; 0: all of them. */
bool npy_open_raw(npy_file *file, const char *path, tlc_dtype dtype, uint64_t row_values, char *why);

/* Reads the next row, cols * width bytes, into row, in the byte order of this machine. */
bool npy_read_row(npy_file *file, void *row, char *why);

void npy_close(npy_file *file);
#endif
