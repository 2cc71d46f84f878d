/* SPDX-License-Identifier: MIT
 *
 * The header of a .safetensors file: its length (u64, little-endian), then JSON: an object with an entry
 *     NAME: {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}
 * for each tensor, whose offsets count from the end of the header, and perhaps "__metadata__", which is not looked at.
 */
#ifndef DELTA_SAFETENSORS_H
#define DELTA_SAFETENSORS_H

#include "layout.h"

/* The longest header, as of the format's own library. */
#define SAFETENSORS_HEADER_MAX 100000000

/* Adds the tensors. *first: where the header ends. Tensors of dtypes that are not known here are bytes. The memory that
 * it takes is at most 32 times that of the header, and 1 MiB. */
bool safetensors_find(const uint8_t *bytes, uint64_t len, uint64_t size, layout *l, uint64_t *first, char *why);
#endif
