/* SPDX-License-Identifier: MIT
 *
 * General compressors at their fastest usual level. A library may be missing (HAVE_ZSTD, HAVE_LZ4, HAVE_SNAPPY).
 */
#ifndef BENCH_GENERAL_H
#define BENCH_GENERAL_H

#include <stdbool.h>
#include <stddef.h>

/* bound gives the capacity for size bytes of input; false: too large. decompress writes the size to *len. */
typedef struct general {
    bool (*bound)(size_t size, size_t *cap);
    void *(*open)(void); /* NULL: the library needs no state */
    void (*close)(void *coder);
    bool (*compress)(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len);
    bool (*decompress)(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len);
} general;

#ifdef HAVE_ZSTD
extern const general general_zstd;
#endif
#ifdef HAVE_LZ4
extern const general general_lz4;
#endif
#ifdef HAVE_SNAPPY
extern const general general_snappy;
#endif
#endif
