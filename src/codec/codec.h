/* SPDX-License-Identifier: MIT
 *
 * Codec strings and the lists of stages that they stand for.
 *
 *   codec  = stage *("+" stage) | short-name        stage, short-name = name [":" key "=" value *("," key "=" value)]
 *   value  = digits ["." digits] | word
 *
 * A list has a quantizer, then perhaps a packer, then perhaps a shrinker. Each stage takes what the stage before it
 * gives, and the last one gives bytes.
 */
#ifndef TLC_CODEC_H
#define TLC_CODEC_H

#include "../stages/stage.h"
#include "text.h"

#define TLC_CODEC_TEXT 128       /* bytes of the longest codec string, with its NUL */
#define TLC_BLOCK_MAX (1u << 28) /* values; the payload of such a block has fewer than 2^31 bytes in every codec */

typedef struct tlc_codec {
    const tlc_stage *quantizer, *packer, *shrinker; /* packer and shrinker may be NULL */
    double params[TLC_MAX_PARAMS];                  /* of the quantizer, in its order */
    size_t block;                                   /* values; 0: not blocked */
} tlc_codec;

/* ---- the registry ------------------------------------------------------------------------------------------------ */

typedef struct tlc_short_name {
    const char *name, *list;
    int built; /* are all its stages? */
} tlc_short_name;

/* All short names: the name, its list, its parts in common/built.h, what tlc_codec_list says of it, and its papers. */
#define TLC_SHORT_NAMES(NAME)                                                                                          \
    NAME("3lc", "ternary+quartic+zerorun", TLC_WITH_3LC, "3LC", "Lim, Andersen, Kaminsky, 3LC, 2018")                  \
    NAME("3lc-golomb", "ternary+golomb", TLC_WITH_3LC_GOLOMB, "the values of 3LC in about half the bytes",             \
         "Lim, Andersen, Kaminsky, 3LC, 2018, with Sattler et al., Sparse Binary Compression, 2018")                   \
    NAME("sbc", "sparse-binary+golomb", TLC_WITH_SBC, "Sparse Binary Compression",                                     \
         "Sattler, Wiedemann, Mueller, Samek, Sparse Binary Compression, 2018")

/* Stage i and short name i; NULL if there are no more. Those that are not built have a name and what the header of
 * frames needs. */
const tlc_stage *tlc_codec_stage(size_t i);
const tlc_short_name *tlc_codec_short_name(size_t i);
/* The same of those that are built. */
const tlc_stage *tlc_codec_built_stage(size_t i);
const tlc_short_name *tlc_codec_built_name(size_t i);
extern const tlc_param tlc_codec_block; /* the parameter block, which all quantizers have */

/* Makes a codec of a quantizer and a packer (or NULL), without blocks. params NULL: the defaults. */
void tlc_codec_fill(tlc_codec *codec, const tlc_stage *quantizer, const tlc_stage *packer, const double *params);

/* How the codec packs members. NULL: the payload has no positions. */
static inline const tlc_positions *tlc_codec_positions(const tlc_codec *codec)
{
    if (!TLC_IS_BUILT(TLC_WITH_MEMBERS))
        return NULL;
    return codec->packer ? codec->packer->positions : codec->quantizer->positions;
}

/* The packer of symbols, which may be the fallback of the list's packer. NULL: there is none. */
static inline const tlc_packer *tlc_codec_symbol_packer(const tlc_codec *codec)
{
    const tlc_stage *stage = codec->packer && tlc_codec_positions(codec) ? codec->packer->fallback : codec->packer;
    return stage ? stage->pack : NULL;
}

/* A stage of the codec that is not part of this build, or NULL. */
static inline const tlc_stage *tlc_codec_lacks(const tlc_codec *codec)
{
    return !tlc_stage_built(codec->quantizer)                     ? codec->quantizer
           : codec->packer && !tlc_stage_built(codec->packer)     ? codec->packer
           : codec->shrinker && !tlc_stage_built(codec->shrinker) ? codec->shrinker
                                                                  : NULL;
}

/* Can a payload have the bytes of the packer's fallback? */
static inline int tlc_codec_has_fallback(const tlc_codec *codec)
{
    return codec->packer && codec->packer->fallback && codec->quantizer->gives == TLC_KIND_TERNARY;
}

/* Is what the codec decodes to the value, on average? Values that natural clips are an exception. */
static inline int tlc_codec_unbiased(const tlc_codec *codec)
{
    int nearest = codec->quantizer == &tlc_stage_natural && codec->params[TLC_NATURAL_ROUNDING] > 0;
    return codec->quantizer->quantize->unbiased && !nearest;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Reads a number and rounds it exactly to binary32 (mantissa 24) or binary64 (53), half to even. The locale does not
 * matter. Returns 0 if text is not digits[.digits], or is 2^64 or more. */
int tlc_parse_number(const char *text, size_t len, int mantissa, double *value);

/* Why a text is not a codec string. */
typedef enum tlc_codec_reason {
    TLC_CODEC_TOO_LONG,
    TLC_CODEC_NO_STAGE,   /* no stage has this name */
    TLC_CODEC_NOT_BUILT,  /* stage is not part of this build */
    TLC_CODEC_SHORT_NAME, /* a short name together with stages */
    TLC_CODEC_MISMATCH,   /* stage does not take what the stage before it gives, or floats if it is the first */
    TLC_CODEC_OPEN_END,   /* stage is the last one, but gives no bytes */
    TLC_CODEC_NO_VALUE,   /* a parameter without = */
    TLC_CODEC_NO_KEY,     /* stage has no such parameter */
    TLC_CODEC_TWICE,      /* a parameter that was given before */
    TLC_CODEC_RANGE       /* a value that param cannot have */
} tlc_codec_reason;

typedef struct tlc_codec_error {
    tlc_codec_reason reason;
    size_t at, len; /* where in the text */
    const tlc_stage *stage, *before;
    const tlc_param *param;
} tlc_codec_error;

/* Parses len bytes of text. TLC_ERR_PARAM: it is not a codec string; *error, if not NULL, says why. */
tlc_status tlc_codec_parse(tlc_codec *codec, const char *text, size_t len, tlc_codec_error *error);

/* Copies len bytes if they are a codec string. If not, returns 0 and writes nothing. */
int tlc_codec_copy(const char *bytes, size_t len, char text[TLC_CODEC_TEXT]);

/* As tlc_codec_parse, with a sentence that says what is wrong. what: the name of the codec in it; text may be NULL. */
tlc_status tlc_codec_read(tlc_codec *codec, const char *what, const char *text, tlc_text *w);
tlc_status tlc_codec_read_part(tlc_codec *codec, const char *what, const char *text, size_t len, tlc_text *w);

/* Says `what "text"`. Long texts are cut, so that the sentence ends. */
void tlc_codec_say(tlc_text *w, const char *what, const char *text, size_t len);

/* Writes what a decoder must know of a codec, as a codec string. */
void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT]);

/* ---- on the wire ------------------------------------------------------------------------------------------------- */

/* Bytes 2 and 3 of the header: what a decoder must know of the codec, except block. fallback: the payload has the bytes
 * of the packer's fallback. */
void tlc_codec_ids(const tlc_codec *codec, int fallback, uint8_t ids[2]);

/* The inverse. Parameters that decoders need not know get their defaults. Returns 0 if no codec has these bytes. */
int tlc_codec_from_ids(tlc_codec *codec, int *fallback, const uint8_t ids[2]);
#endif
