/* SPDX-License-Identifier: MIT
 *
 * The lists of stages and short names; codecs as bytes of a header and as text.
 */
#include "codec.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

#define STAGE_ADDRESS(name) &tlc_stage_##name,
static const tlc_stage *const stages[] = {TLC_STAGES(STAGE_ADDRESS)};

#define SHORT_NAME(name, list, parts, meaning, source) {name, list, TLC_ARE_BUILT(parts)},
static const tlc_short_name short_names[] = {TLC_SHORT_NAMES(SHORT_NAME)};

const tlc_param tlc_codec_block = {
    .key = "block",
    .least = 1,
    .below = (double)TLC_BLOCK_MAX + 1,
    .range = "whole, 1 to 268435456, off if not given",
};

const tlc_stage *tlc_codec_stage(size_t i)
{
    return i < COUNT(stages) ? stages[i] : NULL;
}

const tlc_short_name *tlc_codec_short_name(size_t i)
{
    return i < COUNT(short_names) ? &short_names[i] : NULL;
}

const tlc_stage *tlc_codec_built_stage(size_t i)
{
    for (size_t j = 0; j < COUNT(stages); j++)
        if (tlc_stage_built(stages[j]) && !i--)
            return stages[j];
    return NULL;
}

const tlc_short_name *tlc_codec_built_name(size_t i)
{
    for (size_t j = 0; j < COUNT(short_names); j++)
        if (short_names[j].built && !i--)
            return &short_names[j];
    return NULL;
}

void tlc_codec_fill(tlc_codec *codec, const tlc_stage *quantizer, const tlc_stage *packer, const double *params)
{
    codec->quantizer = quantizer;
    codec->packer = packer;
    codec->shrinker = NULL;
    codec->block = 0;
    for (size_t i = 0; i < quantizer->param_count; i++)
        codec->params[i] = params ? params[i] : quantizer->params[i].fallback;
}

/* ---- on the wire ------------------------------------------------------------------------------------------------- */

#define FALLBACK 1u /* in place of the id of a shrinker: the payload has the bytes of the fallback */

void tlc_codec_ids(const tlc_codec *codec, int fallback, uint8_t ids[2])
{
    unsigned byte = 0;

    if (codec->packer)
        byte = codec->packer->id | (fallback ? FALLBACK : codec->shrinker ? codec->shrinker->id : 0u) << 4;
    for (size_t i = 0; i < codec->quantizer->param_count; i++)
        if (codec->quantizer->params[i].wire_bits)
            byte |= (unsigned)codec->params[i] << codec->quantizer->params[i].wire_shift;
    ids[0] = codec->quantizer->id;
    ids[1] = (uint8_t)byte;
}

/* The first stage that takes one of these kinds and has this id: of those that are built, if there is one. */
static const tlc_stage *stage_by_id(unsigned kinds, unsigned id)
{
    const tlc_stage *found = NULL;

    for (size_t i = 0; i < COUNT(stages); i++)
        if (stages[i]->takes & kinds && stages[i]->id == id &&
            (!found || (!tlc_stage_built(found) && tlc_stage_built(stages[i]))))
            found = stages[i];
    return found;
}

/* Reads the bits of a parameter in *byte, and sets them to 0. Returns 0 if it cannot have this value. */
static int read_param(const tlc_param *param, unsigned *byte, double *value)
{
    unsigned mask = ((1u << param->wire_bits) - 1) << param->wire_shift, number = (*byte & mask) >> param->wire_shift;

    *byte &= ~mask;
    *value = number;
    if (!param->words)
        return *value >= param->least && *value < param->below;
    for (unsigned i = 0; i < number; i++)
        if (!param->words[i + 1])
            return 0;
    return 1;
}

static int read_params(tlc_codec *codec, unsigned *byte)
{
    for (size_t i = 0; i < codec->quantizer->param_count; i++)
        if (codec->quantizer->params[i].wire_bits && !read_param(&codec->quantizer->params[i], byte, &codec->params[i]))
            return 0;
    return 1;
}

int tlc_codec_from_ids(tlc_codec *codec, int *fallback, const uint8_t ids[2])
{
    const tlc_stage *quantizer = stage_by_id(TLC_KIND_FLOATS, ids[0]);
    unsigned byte = ids[1];

    *fallback = 0;
    if (!quantizer)
        return 0;
    tlc_codec_fill(codec, quantizer, NULL, NULL);
    if (!tlc_stage_built(quantizer))
        return 1;
    if (!read_params(codec, &byte))
        return 0;
    if (!byte)
        return tlc_kind_is_payload(quantizer->gives);
    unsigned above = byte >> 4;
    codec->packer = stage_by_id(quantizer->gives, byte & 15u);
    if (!codec->packer || !above)
        return codec->packer != NULL;
    *fallback = above == FALLBACK && tlc_codec_has_fallback(codec);
    if (*fallback)
        return 1;
    codec->shrinker = stage_by_id(codec->packer->gives, above);
    return codec->shrinker != NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Writes ":key=value", or ",key=value" for all but the first. */
static void put_param(tlc_text *w, const tlc_param *param, double value, char *separator)
{
    const size_t number = (size_t)value;

    tlc_text_put(w, separator, 1);
    *separator = ',';
    if (param->words)
        tlc_text_format(w, "%s=%s", param->key, param->words[number]);
    else
        tlc_text_format(w, "%s=%zu", param->key, number);
}

void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT])
{
    const tlc_stage *rest[] = {codec->packer, codec->shrinker};
    tlc_text w = tlc_text_in(text, TLC_CODEC_TEXT);
    char separator = ':';

    tlc_text_say(&w, codec->quantizer->name);
    for (size_t i = 0; i < codec->quantizer->param_count; i++) {
        const tlc_param *param = &codec->quantizer->params[i];
        if (param->wire_bits && (codec->params[i] < param->fallback || codec->params[i] > param->fallback))
            put_param(&w, param, codec->params[i], &separator);
    }
    if (codec->block)
        put_param(&w, &tlc_codec_block, (double)codec->block, &separator);
    for (size_t i = 0; i < COUNT(rest) && rest[i]; i++)
        tlc_text_format(&w, "+%s", rest[i]->name);
}
