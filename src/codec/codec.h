/* SPDX-License-Identifier: MIT
 *
 * Codec strings and the lists of stages that they stand for.
 *
 *   codec  = stage *("+" stage) | short-name        stage, short-name = name [":" key "=" value *("," key "=" value)]
 *   value  = digits ["." digits] | word
 *
 * A list has a quantizer, perhaps a packer and perhaps a shrinker. Each takes the kind of data that the one before it
 * gives, and the last gives bytes.
 */
#ifndef TLC_CODEC_H
#define TLC_CODEC_H

#include "../stages/stage.h"

#define TLC_CODEC_TEXT 128       /* with the NUL */
#define TLC_BLOCK_MAX (1u << 28) /* values; a block's payload length fits 31 bits in every codec */

typedef struct tlc_codec {
    const tlc_stage *quantizer, *packer, *shrinker; /* packer, shrinker: NULL where the list has none */
    double params[TLC_MAX_PARAMS];                  /* of the quantizer, in its order */
    size_t block;                                   /* values; 0: not blocked */
} tlc_codec;

/* ---- the registry ------------------------------------------------------------------------------------------------ */

typedef struct tlc_short_name {
    const char *name, *list, *meaning, *source;
} tlc_short_name;

/* Stages and short names; NULL from the end on. */
const tlc_stage *tlc_codec_stage(size_t i);
const tlc_short_name *tlc_codec_short_name(size_t i);
extern const tlc_param tlc_codec_block; /* the parameter of all quantizers */

/* Fills in a codec of a quantizer and perhaps a packer, not blocked. params NULL: their defaults. */
void tlc_codec_fill(tlc_codec *codec, const tlc_stage *quantizer, const tlc_stage *packer, const double *params);

/* How members are packed, or NULL: the payload has no positions. */
static inline const tlc_positions *tlc_codec_positions(const tlc_codec *codec)
{
    return codec->packer ? codec->packer->positions : codec->quantizer->positions;
}

/* The packer of symbols: the one of the list, or what it falls back to; NULL if there is none. */
static inline const tlc_packer *tlc_codec_symbol_packer(const tlc_codec *codec)
{
    const tlc_stage *stage = codec->packer && codec->packer->positions ? codec->packer->fallback : codec->packer;
    return stage ? stage->pack : NULL;
}

/* Can a payload hold the bytes of the packer's fallback instead of its own? */
static inline int tlc_codec_has_fallback(const tlc_codec *codec)
{
    return codec->packer && codec->packer->fallback && codec->quantizer->quantize->makes == TLC_MAKES_SYMBOLS;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* A number of a codec string as the nearest binary32 (mantissa 24) or binary64 (53), half to even, exactly and without
 * the locale. Returns 0 if text is not digits[.digits], or is 2^64 or more. */
int tlc_parse_number(const char *text, size_t len, int mantissa, double *value);

/* Why a text is no codec. */
typedef enum tlc_codec_reason {
    TLC_CODEC_TOO_LONG,
    TLC_CODEC_NO_STAGE,   /* no stage has this name */
    TLC_CODEC_SHORT_NAME, /* a short name beside others */
    TLC_CODEC_MISMATCH,   /* stage does not take what the one before it, if any, gives */
    TLC_CODEC_OPEN_END,   /* stage gives no bytes, and is the last */
    TLC_CODEC_NO_VALUE,   /* a parameter without = */
    TLC_CODEC_NO_KEY,     /* stage has no such parameter */
    TLC_CODEC_TWICE,
    TLC_CODEC_RANGE       /* a value that param cannot have */
} tlc_codec_reason;

typedef struct tlc_codec_error {
    tlc_codec_reason reason;
    size_t at, len; /* the place */
    const tlc_stage *stage, *before;
    const tlc_param *param;
} tlc_codec_error;

/* Parses len bytes of text. TLC_ERR_PARAM for whatever is not a codec; error may be NULL. */
tlc_status tlc_codec_parse(tlc_codec *codec, const char *text, size_t len, tlc_codec_error *error);

/* What a decoder must know of a codec, as a codec string. */
void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT]);

/* A number in decimal digits, 20 at most and no NUL; returns how many. */
size_t tlc_put_number(char *to, uint64_t value);

/* ---- on the wire ------------------------------------------------------------------------------------------------- */

/* Bytes 2 and 3 of a frame's header, which tell what a decoder must know but for block. fallback: the payload holds the
 * bytes of the packer's fallback. */
void tlc_codec_ids(const tlc_codec *codec, int fallback, uint8_t ids[2]);

/* And back; parameters that decoders need not know get their defaults. Returns 0 for what no codec has. */
int tlc_codec_from_ids(tlc_codec *codec, int *fallback, const uint8_t ids[2]);
#endif
