/* SPDX-License-Identifier: MIT
 *
 * General compressors on whole tensors, or on whole frames of ternary+quartic.
 */
#include "general.h"
#include "peers.h"
#include <stdint.h>
#include <stdlib.h>

#if defined(HAVE_ZSTD) || defined(HAVE_LZ4) || defined(HAVE_SNAPPY)
/* ---- on the floats, or on ternary+quartic frames ---------------------------------------------------------------- */

#define QUARTIC "ternary+quartic"

typedef struct packer {
    const general *library;
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
                               .library = &general_##which};                                                           \
    const peer peer_quartic_##which = {.name = QUARTIC ", " title,                                                     \
                                       .feedback = true,                                                               \
                                       .bound = quartic_bound,                                                         \
                                       .open = quartic_open,                                                           \
                                       .close = packer_close,                                                          \
                                       .compress = quartic_compress,                                                   \
                                       .decompress = quartic_decompress,                                               \
                                       .residual = quartic_residual,                                                   \
                                       .library = &general_##which};

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
