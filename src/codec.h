/* SPDX-License-Identifier: MIT
 *
 * Codec strings and the lists of stages that they stand for.
 *
 *   codec  = stage *("+" stage) | short-name        stage, short-name = name [":" key "=" value *("," key "=" value)]
 *   value  = digits ["." digits]
 *
 * A list has a value stage (floats to symbols or bytes), perhaps a packing stage (symbols to bytes) and perhaps a
 * shrinking stage (bytes to bytes); each takes the kind of data that the one before it gives, and the last gives bytes.
 */
#ifndef TLC_CODEC_H
#define TLC_CODEC_H

#include "kernels/kernels.h"

#define TLC_MAX_SCALARS 1
#define TLC_MAX_PARAMS 1
#define TLC_CODEC_TEXT 128         /* with the NUL */
#define TLC_BLOCK_MAX (1u << 28)   /* values; a block's payload length fits 32 bits in every codec */

typedef struct tlc_stage tlc_stage; /* stages/stage.h */

typedef struct tlc_codec {
    const tlc_stage *value, *pack, *shrink; /* pack, shrink: NULL where the list has none */
    double params[TLC_MAX_PARAMS];          /* of the value stage, in its order */
    size_t block;                           /* 0: not blocked */
} tlc_codec;

/* A number of a codec string as the nearest binary32 (mantissa 24) or binary64 (53), half to even, exactly and without
 * the locale. Returns 0 if text is not digits[.digits], or is 2^64 or more. */
int tlc_parse_number(const char *text, size_t len, int mantissa, double *value);

/* Parses len bytes of text. TLC_ERR_PARAM for whatever is not a codec. */
tlc_status tlc_codec_parse(tlc_codec *codec, const char *text, size_t len);

/* The list of a frame's stage ids, with parameters that the decoder does not need at 0. Returns 0 for unknown ids. */
int tlc_codec_from_ids(tlc_codec *codec, unsigned value, unsigned pack, unsigned shrink);

/* The decoding form as a codec string: stage names and block. */
void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT]);

/* The stage that lays out the payload: the packing one, or the value stage where that gives bytes; every list has one. */
static inline const tlc_stage *tlc_codec_coder(const tlc_codec *codec)
{
    return codec->pack ? codec->pack : codec->value;
}

/* Largest payload of n values in bytes, the block table included; 0 on overflow. */
int tlc_codec_payload_bound(const tlc_codec *codec, tlc_dtype dtype, size_t n, size_t *bound);

/* Largest frame of n values. TLC_ERR_SIZE on overflow. */
tlc_status tlc_codec_frame_bound(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t *bound);

/* Bytes of one entry of the block table. */
size_t tlc_codec_entry_size(const tlc_codec *codec);

static inline uint64_t tlc_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}
#endif
