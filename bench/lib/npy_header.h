/* SPDX-License-Identifier: MIT
 *
 * The header of a .npy file: what it says of the array.
 */
#ifndef BENCH_NPY_HEADER_H
#define BENCH_NPY_HEADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <threelc/threelc.h>

/* The most bytes that npy_parse_header needs: magic, version, length and the longest header that it accepts. */
#define NPY_HEADER_MAX (12 + 65535)

enum { NPY_MAX_DIMS = 64 /* as of NumPy */, NPY_DESCR_TEXT = 64 };

typedef struct npy_header {
    size_t offset; /* of the first value, from the start of the file */
    unsigned dims; /* 0: one value */
    uint64_t shape[NPY_MAX_DIMS];
    uint64_t rows;     /* 1 if there is one dimension or none, else the first dimension */
    uint64_t cols;     /* values in a row: the product of the other dimensions */
    uint64_t trailing; /* bytes of the file after the array, which are not read */
    unsigned width;    /* bytes in a value, 2 or 4 */
    tlc_dtype dtype;
    bool big_endian;
    bool fortran;                   /* the first index moves fastest in the file; false if that makes no difference */
    char descr[NPY_DESCR_TEXT + 2]; /* the dtype as the file names it */
    bool other_dtype;               /* all that is wrong with the header is a dtype that is not read */
} npy_header;

/* bytes: the first len bytes of a file of file_size bytes; len is file_size or at least NPY_HEADER_MAX. On success
 * offset + rows * cols * width + trailing is file_size, and the size of a row fits a size_t. After a failure
 * other_dtype says whether a dtype is the reason, and why (WHY_SIZE bytes, explain.h) says it in words. */
bool npy_parse_header(const void *bytes, size_t len, uint64_t file_size, npy_header *header, char *why);
#endif
