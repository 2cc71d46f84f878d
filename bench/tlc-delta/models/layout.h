/* SPDX-License-Identifier: MIT
 *
 * Where the tensors of a file are. The bytes between them, the file's rest, are its header above all.
 */
#ifndef DELTA_LAYOUT_H
#define DELTA_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <threelc/weights.h>

typedef struct layout_tensor {
    char *name;      /* NULL: that of its file */
    tlc_dtype dtype; /* as which its bytes travel */
    size_t dims;
    uint64_t *shape; /* in weights of the dtype */
    uint64_t n;      /* weights */
    uint64_t offset; /* in the file */
    uint64_t size;   /* bytes */
} layout_tensor;

typedef struct layout {
    size_t count;
    layout_tensor *tensors; /* by offset; they do not overlap */
    uint64_t rest;          /* bytes of the file that are in no tensor */
} layout;

void layout_free(layout *l);

/* The parts of the rest, in order: *at is 0 for the first; *offset, *len: the next part in the file. false: there is no
 * other one. */
bool layout_rest(const layout *l, uint64_t file_size, size_t *at, uint64_t *offset, uint64_t *len);

/* Adds a tensor, with a copy of its name and shape. shape NULL: it has one dimension of n weights. false: out of
 * memory. */
bool layout_add(layout *l, const layout_tensor *t, const uint64_t *shape, char *why);

/* Sorts the tensors. They must lie between `first` and file_size, and not overlap. */
bool layout_settle(layout *l, uint64_t first, uint64_t file_size, char *why);
#endif
