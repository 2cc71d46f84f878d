/* SPDX-License-Identifier: MIT */
#include "codec.h"
#include "../coding/frame.h"
#include "../stages/stage.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* The registry: a line for each stage, and one for each short name. */
static const tlc_stage *const stages[] = {
    &tlc_stage_ternary,
    &tlc_stage_stochastic_ternary,
    &tlc_stage_sparse_binary,
    &tlc_stage_quartic,
    &tlc_stage_zerorun,
    &tlc_stage_golomb,
    &tlc_stage_natural,
    &tlc_stage_int8,
    &tlc_stage_qsgd,
    &tlc_stage_onebit,
    &tlc_stage_topk,
    &tlc_stage_random_sparse,
    &tlc_stage_raw,
};

static const tlc_short_name short_names[] = {
    {"3lc", "ternary+quartic+zerorun", "3LC", "Lim, Andersen, Kaminsky, 3LC, 2018"},
    {"3lc-golomb", "ternary+golomb", "the values of 3LC in about half the bytes",
     "Lim, Andersen, Kaminsky, 3LC, 2018, with Sattler et al., Sparse Binary Compression, 2018"},
    {"sbc", "sparse-binary+golomb", "Sparse Binary Compression",
     "Sattler, Wiedemann, Mueller, Samek, Sparse Binary Compression, 2018"},
};

const tlc_param tlc_codec_block = {
    .key = "block",
    .least = 1,
    .below = (double)TLC_BLOCK_MAX + 1,
    .decoding = 1,
    .range = "whole, 1 to 268435456, off if not given",
    .meaning = "each run of so many values is coded on its own, with scales of its own",
};

const tlc_stage *tlc_codec_stage(size_t i)
{
    return i < COUNT(stages) ? stages[i] : NULL;
}

const tlc_short_name *tlc_codec_short_name(size_t i)
{
    return i < COUNT(short_names) ? &short_names[i] : NULL;
}

/* ---- the decoding form ------------------------------------------------------------------------------------------- */

#define SECOND_FORM 0x10u /* where a packing stage that has one would have the id of a shrinking stage */

int tlc_codec_has_second(const tlc_codec *codec)
{
    const tlc_coder_ops *coder = tlc_codec_coder(codec)->coder;
    return coder->has_second && coder->has_second(codec);
}

void tlc_codec_ids(const tlc_codec *codec, int second, uint8_t ids[2])
{
    ids[0] = codec->value->id;
    if (codec->pack) {
        unsigned shrink = codec->shrink ? codec->shrink->id : 0;
        ids[1] = (uint8_t)(codec->pack->id | shrink << 4 | (second ? SECOND_FORM : 0));
    } else
        ids[1] = (uint8_t)(codec->value->form ? codec->value->form(codec) : 0);
}

static const tlc_stage *value_by_id(unsigned id)
{
    for (size_t i = 0; i < COUNT(stages); i++)
        if (stages[i]->id == id && stages[i]->value)
            return stages[i];
    return NULL;
}

/* A packing stage, or else a shrinking one, that takes what the stage before gives. */
static const tlc_stage *next_by_id(const tlc_stage *before, int pack, unsigned id)
{
    for (size_t i = 0; i < COUNT(stages); i++)
        if (stages[i]->id == id && stages[i]->in & before->out && (pack ? stages[i]->coder != NULL : stages[i]->shrink != NULL))
            return stages[i];
    return NULL;
}

int tlc_codec_from_ids(tlc_codec *codec, int *second, const uint8_t ids[2])
{
    unsigned form = ids[1] >> 4;

    *second = 0;
    codec->pack = codec->shrink = NULL;
    codec->block = 0;
    codec->value = value_by_id(ids[0]);
    if (!codec->value)
        return 0;
    for (size_t i = 0; i < codec->value->param_count; i++)
        codec->params[i] = codec->value->params[i].fallback;
    if (codec->value->coder)
        return codec->value->from_form ? codec->value->from_form(codec, ids[1]) : !ids[1];
    codec->pack = next_by_id(codec->value, 1, ids[1] & 15u);
    if (!codec->pack || !form)
        return codec->pack != NULL;
    *second = form == SECOND_FORM >> 4 && tlc_codec_has_second(codec);
    if (*second)
        return 1;
    codec->shrink = next_by_id(codec->pack, 0, form);
    return codec->shrink != NULL;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

static size_t put_text(char *to, const char *text)
{
    memcpy(to, text, strlen(text));
    return strlen(text);
}

size_t tlc_put_number(char *to, uint64_t value)
{
    char digits[20];
    size_t d = sizeof digits;

    do
        digits[--d] = (char)('0' + value % 10);
    while (value /= 10);
    memcpy(to, digits + d, sizeof digits - d);
    return sizeof digits - d;
}

/* ":key=value", or ",key=value" after another one. */
static size_t put_param(char *to, const tlc_param *param, double value, int *others)
{
    size_t at = put_text(to, *others ? "," : ":");

    *others = 1;
    at += put_text(to + at, param->key);
    at += put_text(to + at, "=");
    return at + (param->words ? put_text(to + at, param->words[(size_t)value]) : tlc_put_number(to + at, (uint64_t)value));
}

void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT])
{
    const tlc_stage *rest[] = {codec->pack, codec->shrink};
    size_t at = put_text(text, codec->value->name);
    int others = 0;

    for (size_t i = 0; i < codec->value->param_count; i++) {
        const tlc_param *param = &codec->value->params[i];
        if (param->decoding && (codec->params[i] < param->fallback || codec->params[i] > param->fallback))
            at += put_param(text + at, param, codec->params[i], &others);
    }
    if (codec->block)
        at += put_param(text + at, &tlc_codec_block, (double)codec->block, &others);
    for (size_t i = 0; i < COUNT(rest) && rest[i]; i++) {
        at += put_text(text + at, "+");
        at += put_text(text + at, rest[i]->name);
    }
    text[at] = 0;
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

size_t tlc_codec_entry_size(const tlc_codec *codec)
{
    return 4 * (size_t)codec->value->value->scalars + 4;
}

/* Largest payload of n values, the block table included. */
static uint64_t payload_bound(const tlc_codec *codec, tlc_dtype dtype, size_t n)
{
    const tlc_coder_ops *coder = tlc_codec_coder(codec)->coder;

    if (!codec->block)
        return n ? coder->bound(codec, dtype, n) : 0;
    size_t whole = n / codec->block, last = n % codec->block;
    uint64_t total = tlc_product(whole + (last != 0), tlc_codec_entry_size(codec));
    total = tlc_sum(total, tlc_product(whole, coder->bound(codec, dtype, codec->block)));
    return tlc_sum(total, last ? coder->bound(codec, dtype, last) : 0);
}

tlc_status tlc_codec_frame_bound(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t *bound)
{
    size_t around = tlc_frame_header_size(codec, n) + (checksum ? TLC_CHECKSUM_SIZE : 0);
    tlc_float_mode mode = tlc_float_enter();
    uint64_t total = tlc_sum(payload_bound(codec, dtype, n), around);

    tlc_float_leave(mode);
    if (total > SIZE_MAX || total == UINT64_MAX)
        return TLC_ERR_SIZE;
    *bound = (size_t)total;
    return TLC_OK;
}

tlc_status tlc_codec_scratch(const tlc_codec *codec, size_t n, size_t units, size_t *size)
{
    const tlc_coder_ops *coder = tlc_codec_coder(codec)->coder;
    size_t unit = codec->block && codec->block < n ? codec->block : n;
    uint64_t blocks = codec->block ? tlc_ceil_div(n, codec->block) : 1, total = 0;

    if (coder->scratch && n)
        total = tlc_product(coder->scratch(codec, unit), blocks < units ? blocks : units);
    if (total > SIZE_MAX || total == UINT64_MAX)
        return TLC_ERR_SIZE;
    *size = (size_t)total;
    return TLC_OK;
}
