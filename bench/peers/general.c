/* SPDX-License-Identifier: MIT */
#include "general.h"
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif
#ifdef HAVE_LZ4
#include <lz4.h>
#endif
#ifdef HAVE_SNAPPY
#include <snappy-c.h>
#endif

#ifdef HAVE_ZSTD
typedef struct zstd_coder {
    ZSTD_CCtx *c;
    ZSTD_DCtx *d;
} zstd_coder;

static bool zstd_bound(size_t size, size_t *cap)
{
    *cap = ZSTD_compressBound(size);
    return !ZSTD_isError(*cap) && *cap >= size;
}

static void zstd_close(void *coder)
{
    zstd_coder *z = coder;

    if (!z)
        return;
    ZSTD_freeCCtx(z->c);
    ZSTD_freeDCtx(z->d);
    free(z);
}

static void *zstd_open(void)
{
    zstd_coder *z = malloc(sizeof *z);

    if (!z)
        return NULL;
    *z = (zstd_coder){.c = ZSTD_createCCtx(), .d = ZSTD_createDCtx()};
    if (z->c && z->d)
        return z;
    zstd_close(z);
    return NULL;
}

static bool zstd_compress(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len)
{
    *len = ZSTD_compressCCtx(((zstd_coder *)coder)->c, dst, cap, src, size, 1);
    return !ZSTD_isError(*len);
}

static bool zstd_decompress(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len)
{
    *len = ZSTD_decompressDCtx(((zstd_coder *)coder)->d, dst, cap, src, size);
    return !ZSTD_isError(*len);
}

const general general_zstd = {zstd_bound, zstd_open, zstd_close, zstd_compress, zstd_decompress};
#endif

#ifdef HAVE_LZ4
static int int_size(size_t size)
{
    return size < INT_MAX ? (int)size : INT_MAX;
}

static bool lz4_bound(size_t size, size_t *cap)
{
    *cap = (size_t)LZ4_compressBound(int_size(size));
    return size <= LZ4_MAX_INPUT_SIZE;
}

static bool lz4_compress(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len)
{
    int written = LZ4_compress_default(src, dst, int_size(size), int_size(cap));

    (void)coder;
    *len = (size_t)written;
    return written > 0;
}

static bool lz4_decompress(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len)
{
    int written = size > INT_MAX ? -1 : LZ4_decompress_safe(src, dst, (int)size, int_size(cap));

    (void)coder;
    *len = (size_t)written;
    return written >= 0;
}

const general general_lz4 = {lz4_bound, NULL, NULL, lz4_compress, lz4_decompress};
#endif

#ifdef HAVE_SNAPPY
/* Snappy stores sizes in 32 bits. */
static bool snappy_bound(size_t size, size_t *cap)
{
    *cap = snappy_max_compressed_length(size);
    return size <= UINT32_MAX && *cap >= size;
}

static bool snappy_pack(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len)
{
    (void)coder;
    *len = cap;
    return snappy_compress(src, size, dst, len) == SNAPPY_OK;
}

static bool snappy_unpack(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len)
{
    (void)coder;
    *len = cap;
    return snappy_uncompress(src, size, dst, len) == SNAPPY_OK;
}

const general general_snappy = {snappy_bound, NULL, NULL, snappy_pack, snappy_unpack};
#endif
