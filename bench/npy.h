/* SPDX-License-Identifier: MIT
 *
 * Reads arrays of 16- and 32-bit floats, row by row: .npy files (versions 1.0, 2.0 and 3.0; 1-D or 2-D in C order;
 * '<f2', '<f4', '>f2', '>f4') and .f32 files (little-endian binary32 without a header). Files may hold any bytes: the
 * shape in a header is used only if it agrees with the size of the file.
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

/* The most bytes that npy_parse_header needs: magic, version, length and the longest header that it accepts. */
#define NPY_HEADER_MAX (12 + 65535)

typedef struct npy_header {
    size_t offset;  /* of the first value, from the start of the file */
    uint64_t rows;  /* 1 for a 1-D array */
    uint64_t cols;  /* values in a row */
    unsigned width; /* bytes in a value, 2 (binary16) or 4 (binary32) */
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

/* Opens an .f32 file, which must not be empty. row_values: values in a row; 0: all of them. */
bool npy_open_f32(npy_file *file, const char *path, uint64_t row_values, char *why);

/* Reads the next row, cols * width bytes, into row, in the byte order of this machine. */
bool npy_read_row(npy_file *file, void *row, char *why);

void npy_close(npy_file *file);
#endif
