/* SPDX-License-Identifier: MIT
 *
 * Lists of the tensors of real models, for --shapes. A list is a text file with a line for each tensor: its name and
 * its dimensions, as in "conv1.weight 16x3x3x3". Lines that begin with # are comments.
 */
#ifndef BENCH_SHAPES_H
#define BENCH_SHAPES_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_TENSORS = 1 << 16 };

typedef struct shape {
    char *name;
    size_t n;      /* values */
    size_t offset; /* of the first value, where all tensors lie in one array; a multiple of 16 */
} shape;

typedef struct shape_list {
    char *model; /* the name of the file without folder and extension */
    shape *shapes;
    size_t count;
    size_t values; /* of all tensors */
    size_t room;   /* values of an array that holds all tensors at their offsets */
} shape_list;

/* false: the file cannot be read or is no such list, and why says so. */
bool shapes_load(shape_list *list, const char *path, char *why);
void shapes_free(shape_list *list);

size_t shapes_largest(const shape_list *list); /* values of the largest tensor */

/* Whether a name has "attn" or "attention" in it, in letters of any case, as those of transformers have. */
bool shape_is_attention(const char *name);
bool shapes_have_attention(const shape_list *list);
#endif
