/* SPDX-License-Identifier: MIT
 *
 * The kinds of files.
 */
#ifndef DELTA_KINDS_H
#define DELTA_KINDS_H

#include "layout.h"

typedef enum file_kind {
    FILE_RAW,        /* one tensor, all of the file */
    FILE_NPY,        /* one tensor, and a header */
    FILE_SAFETENSORS /* any number of tensors */
} file_kind;

/* By the end of its path, and its first bytes. */
file_kind kind_of(const char *path, const uint8_t *bytes, uint64_t len);

/* Finds the tensors of a file of `size` bytes. bytes: the first len of them, or all; the header must be in them. They
 * may be any bytes. dtype: of a raw file. false: why says what is wrong, without the name of the file; there is nothing
 * to free. */
bool kind_find(file_kind kind, tlc_dtype dtype, const uint8_t *bytes, uint64_t len, uint64_t size, layout *l,
               char *why);
#endif
