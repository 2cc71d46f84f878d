/* SPDX-License-Identifier: MIT
 *
 * A context: the configuration, the residual, and what is derived from them. One allocation holds it all. Chunks between
 * stages live on the stack, whatever n is; only codecs of positions need scratch, a bit or two a value.
 */
#ifndef TLC_CONTEXT_H
#define TLC_CONTEXT_H

#include "codec/codec.h"

struct tlc_ctx {
    const tlc_kernels *kernels;
    tlc_codec codec;
    char codec_text[TLC_CODEC_TEXT]; /* as the caller wrote it */
    size_t n;
    size_t bound;                    /* of the codec's frames and of those reserved */
    tlc_dtype dtype;
    int feedback, checksum, assume_finite;
    uint64_t seed, step;             /* step: successful compressions */
    float *residual;                 /* NULL without feedback */
    uint64_t *scratch;               /* of coding, or NULL */
    size_t scratch_size;             /* what the codec and those reserved need of it */
    tlc_allocator alloc;
    tlc_parallel parallel;
};

#endif
