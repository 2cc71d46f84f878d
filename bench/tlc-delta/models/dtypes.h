/* SPDX-License-Identifier: MIT
 *
 * The dtypes of weights.
 */
#ifndef DELTA_DTYPES_H
#define DELTA_DTYPES_H

#include <stddef.h>
#include <stdint.h>
#include <threelc/threelc.h>

/* Their names, by number; NULL ends them. */
extern const char *const dtype_names[];

unsigned dtype_bits(tlc_dtype dtype);

/* How many weights so many bytes are; what remains is no whole weight. */
uint64_t dtype_count(tlc_dtype dtype, uint64_t bytes);

/* Changes weights between the byte order of files, which is little-endian, and that of this machine. */
void dtype_turn(tlc_dtype dtype, uint8_t *weights, size_t size);

/* Whether weights of a file are weights of this machine as they are. */
int dtype_is_same(tlc_dtype dtype);
#endif
