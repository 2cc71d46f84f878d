/* SPDX-License-Identifier: MIT
 *
 * A context: the configuration, the residual, and what is derived from them. It is one allocation. Chunks between
 * stages are on the stack, for any n. Only codecs with positions need scratch memory, one or two bits a value.
 */
#ifndef TLC_CONTEXT_H
#define TLC_CONTEXT_H

#include "codec/codec.h"

struct tlc_ctx {
    const tlc_kernels *kernels;
    tlc_codec codec;
    char codec_text[TLC_CODEC_TEXT]; /* as the caller wrote it */
    size_t n;
    size_t bound; /* of the frames of this codec and of the reserved ones */
    tlc_dtype dtype;
    int feedback, checksum, assume_finite;
    uint64_t seed, step; /* step: successful compressions */
    float *residual;     /* NULL without feedback */
    uint64_t *scratch;   /* for coding/, or NULL */
    size_t scratch_size; /* the bytes that the codec and the reserved ones need */
    tlc_allocator alloc;
    tlc_parallel parallel;
};

/* The allocator of a configuration: malloc and free if none is given. */
tlc_allocator tlc_allocator_of(const tlc_allocator *given);

/* What tlc_set_codec would return. It changes nothing. */
tlc_status tlc_codec_fits(const tlc_ctx *ctx, const char *codec);

#endif
