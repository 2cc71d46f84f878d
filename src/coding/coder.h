/* SPDX-License-Identifier: MIT
 *
 * Coders: what makes the payload of a unit, and reads it back. There are three, one for each thing that quantizers make:
 * symbols, members, codes. They drive the stages a chunk at a time, share a unit out among threads, keep the residual
 * (feedback.h) and use fused kernels (fused.h).
 */
#ifndef TLC_CODER_H
#define TLC_CODER_H

#include "../codec/codec.h"
#include "../values/output.h"
#include "fused.h"
#include "ranges.h"

/* A unit on its way to a payload, or back. */
typedef struct tlc_coding {
    tlc_unit unit;
    const tlc_codec *codec;
    const tlc_fused *fused;       /* or NULL */
    int fallback;                 /* the payload holds the bytes of the packer's fallback; encode sets it */
    const tlc_parallel *parallel; /* NULL: this thread */
    uint64_t *scratch;            /* encode: what the coder's scratch asks for */
    uint64_t clipped;             /* encode, codes: sets how many values were clipped */
    int bare;                     /* codes: the payload is the planes alone, without their count */
    const tlc_output *output;     /* decode */
} tlc_coding;

typedef struct tlc_coder {
    uint64_t (*bound)(const tlc_codec *codec, tlc_dtype dtype, uint64_t n); /* largest payload; UINT64_MAX on overflow */
    uint64_t (*scratch)(const tlc_codec *codec, uint64_t n);                /* bytes that encode needs */
    /* Writes the payload of a unit whose scalars and selection are set, and returns its length. n > 0. */
    size_t (*encode)(tlc_coding *c, uint8_t *dst);
    int (*check)(const tlc_coding *c, const uint8_t *src, size_t len); /* is src, of any bytes, a payload of the unit? */
    void (*decode)(const tlc_coding *c, const uint8_t *src, size_t len); /* of a payload that passed the check */
} tlc_coder;

extern const tlc_coder tlc_coder_of_symbols, tlc_coder_of_members, tlc_coder_of_codes;

static inline const tlc_coder *tlc_coder_for(const tlc_codec *codec)
{
    if (tlc_codec_positions(codec))
        return &tlc_coder_of_members;
    return codec->packer ? &tlc_coder_of_symbols : &tlc_coder_of_codes;
}

/* coder_codes.c: where the planes of a payload of n codes begin. Returns the payload's length. */
uint64_t tlc_codes_planes(const tlc_layout *layout, uint64_t n, const uint8_t *payload, const uint8_t *planes[2]);

/* coder_symbols.c: expands a shrunk array into dst, which has just the room for it. */
void tlc_shrunk_expand(const tlc_shrinker *shrinker, const tlc_kernels *k, const uint8_t *src, size_t len, uint8_t *dst);
#endif
