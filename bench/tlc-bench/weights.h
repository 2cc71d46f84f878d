/* SPDX-License-Identifier: MIT
 *
 * Weights before and after some steps of a training, for --delta: sources of one step, all of one dtype, with the bits
 * that files have. A function that fails returns false and writes the reason to why (WHY_SIZE bytes, explain.h).
 */
#ifndef BENCH_WEIGHTS_H
#define BENCH_WEIGHTS_H

#include "../lib/source.h"

enum { MAX_MOVES = 8 };

/* --synthetic adam:lr=NUMBER. Weights are drawn from a normal distribution of mean 0 and deviation 0.02, as float32. A
 * step of Adam at the learning rate lr moves each by lr (1 + 0.3 z), z normal, up or down; then both are rounded to the
 * dtype. */
typedef struct weight_moves {
    size_t count;
    const char *name[MAX_MOVES]; /* "lr=..." */
    double rate[MAX_MOVES];
} weight_moves;

/* "adam" or "adam:lr=NUMBER". Without a number there are rates at which 1% to 60% of bfloat16 weights change. */
bool weights_parse(const char *text, weight_moves *moves);

/* A file or a folder, of .safetensors files or of files as source.h has them: tensors of any shape. Those of a folder
 * or a model are left out (source.h) that have another dtype than most weights. */
bool weights_load(source *s, char *path, char *why);

/* Whether next has the tensors of base: the same sizes and, of folders, the same names. */
bool weights_match(const source *base, const source *next, char *why);

/* The source of the base: n weights. Then one for each rate. */
bool weights_draw(source *s, const weight_moves *moves, size_t n, tlc_dtype dtype, uint64_t seed, char *why);
#endif
