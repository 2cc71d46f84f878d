/* SPDX-License-Identifier: MIT
 *
 * A context: the configuration, the residual, and what is derived from them. It is one allocation. Chunks between
 * stages are on the stack, for any n. Only codecs with positions need scratch memory, one or two bits a value.
 */
#ifndef TLC_CONTEXT_H
#define TLC_CONTEXT_H

#include "../codec/codec.h"

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
    char *message; /* TLC_MESSAGE_SIZE bytes: what tlc_last_error tells */
};

/* Where a call that fails says why. Nothing is written before it does. */
static inline tlc_text tlc_ctx_text(const tlc_ctx *ctx)
{
    return (tlc_text){ctx->message, 0, TLC_MESSAGE_SIZE};
}

#define TLC_CTX_FAIL(ctx, status, ...) TLC_FAIL(&((tlc_text){(ctx)->message, 0, TLC_MESSAGE_SIZE}), status, __VA_ARGS__)

/* The allocator of a configuration: malloc and free if none is given. */
tlc_allocator tlc_allocator_of(const tlc_allocator *given);

/* TLC_ERR_PARAM: one of its functions is missing. */
tlc_status tlc_allocator_check(const tlc_allocator *given, tlc_text *w);

/* What tlc_set_codec would return. It changes nothing but the message. */
tlc_status tlc_codec_fits(const tlc_ctx *ctx, const char *codec);

/* tlc_set_codec. what: the name of the codec in the sentence if it fails. */
tlc_status tlc_codec_adopt(tlc_ctx *ctx, const char *what, const char *codec);

#endif
