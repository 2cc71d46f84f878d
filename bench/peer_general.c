/* SPDX-License-Identifier: MIT
 *
 * General compressors at their fastest usual level. They compress whole tensors or whole frames of ternary+quartic.
 */
#include "peers.h"
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

#if defined(HAVE_ZSTD) || defined(HAVE_LZ4) || defined(HAVE_SNAPPY)
/* ---- the libraries ---------------------------------------------------------------------------------------------- */

/* bound gives the capacity for size bytes of input; false: too large. decompress writes the size to *len. */
struct peer_library {
    bool (*bound)(size_t size, size_t *cap);
    void *(*open)(void); /* NULL: the library needs no state */
    void (*close)(void *coder);
    bool (*compress)(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len);
    bool (*decompress)(void *coder, const void *src, size_t size, void *dst, size_t cap, size_t *len);
};

typedef struct peer_library library;

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

static const library zstd = {zstd_bound, zstd_open, zstd_close, zstd_compress, zstd_decompress};
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

static const library lz4 = {lz4_bound, NULL, NULL, lz4_compress, lz4_decompress};
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

static const library snappy = {snappy_bound, NULL, NULL, snappy_pack, snappy_unpack};
#endif

/* ---- on the floats, or on ternary+quartic frames ---------------------------------------------------------------- */

#define QUARTIC "ternary+quartic"

typedef struct packer {
    const library *library;
    void *coder;
    tlc_ctx *ctx;         /* NULL, as is what follows, on the floats */
    unsigned char *frame; /* of ternary+quartic, before it is packed or after it was unpacked */
    size_t frame_cap;
    tlc_decode_options decode;
} packer;

static void packer_close(void *state)
{
    packer *k = state;

    if (!k)
        return;
    if (k->coder)
        k->library->close(k->coder);
    tlc_destroy(k->ctx);
    free(k->frame);
    free(k);
}

static void *packer_open(const peer *p, size_t n, tlc_isa isa)
{
    packer *k = calloc(1, sizeof *k);
    size_t cap;

    if (k) {
        k->library = p->library;
        k->decode = (tlc_decode_options){.struct_size = sizeof k->decode, .isa = isa};
        k->coder = p->library->open ? p->library->open() : NULL;
    }
    if (k && p->bound(p, n, &cap) && (k->coder || !p->library->open))
        return k;
    packer_close(k);
    return NULL;
}

static bool floats_bound(const peer *p, size_t n, size_t *cap)
{
    return n <= SIZE_MAX / sizeof(float) && p->library->bound(n * sizeof(float), cap);
}

static bool floats_compress(void *state, const float *g, size_t n, void *dst, size_t cap, size_t *len)
{
    const packer *k = state;

    return k->library->compress(k->coder, g, n * sizeof *g, dst, cap, len);
}

static bool floats_decompress(void *state, const void *src, size_t len, float *out, size_t n)
{
    const packer *k = state;
    size_t size;

    return k->library->decompress(k->coder, src, len, out, n * sizeof *out, &size) && size == n * sizeof *out;
}

static bool quartic_bound(const peer *p, size_t n, size_t *cap)
{
    size_t size;

    return !tlc_codec_bound(QUARTIC, TLC_F32, n, &size) && p->library->bound(size, cap);
}

static void *quartic_open(const peer *p, size_t n, tlc_isa isa)
{
    packer *k = packer_open(p, n, isa);
    tlc_config cfg;

    if (!k)
        return NULL;
    if (!tlc_config_init(&cfg, sizeof cfg)) {
        cfg.codec = QUARTIC;
        cfg.isa = isa;
        if (!tlc_create(&k->ctx, &cfg, n)) {
            k->frame_cap = tlc_bound(k->ctx);
            k->frame = malloc(k->frame_cap);
        }
    }
    if (k->frame)
        return k;
    packer_close(k);
    return NULL;
}

static bool quartic_compress(void *state, const float *g, size_t n, void *dst, size_t cap, size_t *len)
{
    packer *k = state;
    size_t size;

    (void)n; /* the context's */
    return !tlc_compress(k->ctx, g, k->frame, k->frame_cap, &size) &&
           k->library->compress(k->coder, k->frame, size, dst, cap, len);
}

static bool quartic_decompress(void *state, const void *src, size_t len, float *out, size_t n)
{
    packer *k = state;
    size_t size;

    return k->library->decompress(k->coder, src, len, k->frame, k->frame_cap, &size) &&
           !tlc_decompress(k->frame, size, TLC_F32, out, n, &k->decode);
}

static float *quartic_residual(const void *state)
{
    return tlc_residual(((const packer *)state)->ctx);
}

/* ---- the peers -------------------------------------------------------------------------------------------------- */

#define PEERS(which, title)                                                                                            \
    const peer peer_##which = {.name = (title),                                                                        \
                               .exact = true,                                                                          \
                               .bound = floats_bound,                                                                  \
                               .open = packer_open,                                                                    \
                               .close = packer_close,                                                                  \
                               .compress = floats_compress,                                                            \
                               .decompress = floats_decompress,                                                        \
                               .library = &(which)};                                                                   \
    const peer peer_quartic_##which = {.name = QUARTIC ", " title,                                                     \
                                       .feedback = true,                                                               \
                                       .bound = quartic_bound,                                                         \
                                       .open = quartic_open,                                                           \
                                       .close = packer_close,                                                          \
                                       .compress = quartic_compress,                                                   \
                                       .decompress = quartic_decompress,                                               \
                                       .residual = quartic_residual,                                                   \
                                       .library = &(which)};

#ifdef HAVE_ZSTD
PEERS(zstd, "zstd -1")
#endif
#ifdef HAVE_LZ4
PEERS(lz4, "lz4")
#endif
#ifdef HAVE_SNAPPY
PEERS(snappy, "snappy")
#endif
#endif
