/* SPDX-License-Identifier: MIT
 *
 * A context: the configuration, the residual, and what is derived from them. One allocation holds it all. Stages hand
 * on pieces that live on the stack, whatever n is; only sparse codecs need scratch, a bit or two a value.
 */
#ifndef TLC_CONTEXT_H
#define TLC_CONTEXT_H

#include "codec/codec.h"
#include "coding/frame.h"
#include "coding/pipeline.h"

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

/* Copies a struct that starts with its struct_size into ours of size bytes, which holds the defaults: missing fields keep
 * them, extra bytes must be 0. Returns 0 if they are not, or if theirs is too small to be one. */
int tlc_import(void *ours, size_t size, const void *theirs);

/* The other way: fills a struct of the caller's, which starts with its struct_size, from ours of size bytes. */
void tlc_export(void *theirs, const void *ours, size_t size);
#endif
