/* SPDX-License-Identifier: MIT
 *
 * Drawn weights in the dtypes that models are served in.
 */
#ifndef BENCH_QUANTIZE_H
#define BENCH_QUANTIZE_H

#include <threelc/threelc.h>

/* Writes weights first .. first + count - 1 of a tensor: the values, rounded to the nearest. In dtypes of 8 bits and
 * fewer six standard deviations are the largest value; u8 and u4 are int8 and int4. first and count are even. dtype: up
 * to TLC_U4. */
void quantize(tlc_dtype dtype, const float *values, double deviation, unsigned char *weights, size_t first,
              size_t count);
#endif
