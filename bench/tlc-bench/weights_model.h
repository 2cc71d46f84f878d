/* SPDX-License-Identifier: MIT
 *
 * Weights in .safetensors files.
 */
#ifndef BENCH_WEIGHTS_MODEL_H
#define BENCH_WEIGHTS_MODEL_H

#include "../lib/source.h"

/* Is it a .safetensors file, or a folder with one? */
bool weights_is_model(const char *path);

/* Reads all tensors of the dtype that most weights have, and leaves the others out. */
bool weights_load_model(source *s, const char *path, char *why);
#endif
