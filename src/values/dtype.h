/* SPDX-License-Identifier: MIT
 *
 * The dtypes: sizes, conversion to and from binary32, byte order.
 */
#ifndef TLC_DTYPE_H
#define TLC_DTYPE_H

#include "../kernels/kernels.h"

/* The values of a chunk. A chunk and what is made of it stay in the first-level cache. */
#define TLC_CHUNK 1024

static inline int tlc_dtype_valid(tlc_dtype t)
{
    return t == TLC_F32 || t == TLC_F16 || t == TLC_BF16;
}

static inline size_t tlc_dtype_size(tlc_dtype t)
{
    return t == TLC_F32 ? 4 : 2;
}

/* Can these values be read and written in place as floats? */
static inline int tlc_is_floats(tlc_dtype t, const void *p)
{
    return t == TLC_F32 && (uintptr_t)p % _Alignof(float) == 0;
}

void tlc_widen(const tlc_kernels *k, tlc_dtype from, const void *src, size_t n, float *out);
void tlc_narrow(const tlc_kernels *k, const float *in, size_t n, tlc_dtype to, void *dst);

/* Copies n elements of `size` bytes from the byte order of the machine to little-endian, or back. */
void tlc_copy_le(void *dst, const void *src, size_t n, size_t size);
#endif
