/* SPDX-License-Identifier: MIT
 *
 * Codec strings and the lists of stages that they stand for.
 *
 *   codec  = stage *("+" stage) | short-name        stage, short-name = name [":" key "=" value *("," key "=" value)]
 *   value  = digits ["." digits] | word
 *
 * A list has a value stage (floats to symbols or bytes), perhaps a packing stage (symbols to bytes) and perhaps a
 * shrinking stage (bytes to bytes); each takes the kind of data that the one before it gives, and the last gives bytes.
 */
#ifndef TLC_CODEC_H
#define TLC_CODEC_H

#include "../kernels/kernels.h"

#define TLC_MAX_SCALARS 2
#define TLC_MAX_PARAMS 3
#define TLC_CODEC_TEXT 128         /* with the NUL */
#define TLC_BLOCK_MAX (1u << 28)   /* values; a block's payload length fits 31 bits in every codec */

typedef struct tlc_stage tlc_stage; /* stages/stage.h */
typedef struct tlc_param tlc_param;

typedef struct tlc_codec {
    const tlc_stage *value, *pack, *shrink; /* pack, shrink: NULL where the list has none */
    double params[TLC_MAX_PARAMS];          /* of the value stage, in its order */
    size_t block;                           /* 0: not blocked */
} tlc_codec;

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
    TLC_CODEC_RANGE       /* what param cannot be */
} tlc_codec_reason;

typedef struct tlc_codec_error {
    tlc_codec_reason reason;
    size_t at, len; /* the place */
    const tlc_stage *stage, *before;
    const tlc_param *param;
} tlc_codec_error;

/* Parses len bytes of text. TLC_ERR_PARAM for whatever is not a codec; error may be NULL. */
tlc_status tlc_codec_parse(tlc_codec *codec, const char *text, size_t len, tlc_codec_error *error);

typedef struct tlc_short_name {
    const char *name, *list, *meaning, *source;
} tlc_short_name;

/* The registry: stages, and short names; NULL from the end on. */
const tlc_stage *tlc_codec_stage(size_t i);
const tlc_short_name *tlc_codec_short_name(size_t i);
extern const tlc_param tlc_codec_block; /* the parameter of all */

/* The two bytes of a frame's header that tell its list, and back with parameters that the decoder does not need at their
 * defaults. second: the payload has its coder's second form. Returns 0 for what no list has. */
void tlc_codec_ids(const tlc_codec *codec, int second, uint8_t ids[2]);
int tlc_codec_from_ids(tlc_codec *codec, int *second, const uint8_t ids[2]);

/* Can a payload have a second form? */
int tlc_codec_has_second(const tlc_codec *codec);

/* The decoding form as a codec string: stage names, parameters that the decoder needs, block. */
void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT]);

/* A number in decimal digits, 20 at most and no NUL; returns how many. */
size_t tlc_put_number(char *to, uint64_t value);

/* The stage that lays out the payload: the packing one, or the value stage where that gives bytes; every list has one. */
static inline const tlc_stage *tlc_codec_coder(const tlc_codec *codec)
{
    return codec->pack ? codec->pack : codec->value;
}

/* Bytes that coding a tensor of n values needs besides the frame: for each unit that is coded at the same time as others,
 * up to units of them. TLC_ERR_SIZE on overflow. */
tlc_status tlc_codec_scratch(const tlc_codec *codec, size_t n, size_t units, size_t *size);

/* Largest frame of n values. TLC_ERR_SIZE on overflow. */
tlc_status tlc_codec_frame_bound(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t *bound);

/* Bytes of one entry of the block table. */
size_t tlc_codec_entry_size(const tlc_codec *codec);

static inline uint64_t tlc_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Sums and products of sizes, UINT64_MAX once they overflow. */
static inline uint64_t tlc_sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t tlc_product(uint64_t a, uint64_t b)
{
    return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}
#endif
