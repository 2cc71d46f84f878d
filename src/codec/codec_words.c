/* SPDX-License-Identifier: MIT
 *
 * tlc_codec_check and tlc_codec_list: what is wrong with a codec string, and which codecs there are.
 */
#include "../common/structs.h"
#include "codec.h"
#include "nearest.h"

static const char *kind_words(unsigned kinds)
{
    static const struct {
        unsigned kinds;
        const char *words;
    } known[] = {
        {TLC_KIND_FLOATS, "floats"},
        {TLC_KIND_TERNARY, "3-value symbols"},
        {TLC_KIND_BINARY, "binary symbols"},
        {TLC_KIND_MEMBERS, "members"},
        {TLC_KIND_TERNARY | TLC_KIND_BINARY | TLC_KIND_MEMBERS, "3-value or binary symbols, or members"},
        {TLC_KIND_QUARTIC, "quartic bytes"},
        {TLC_KIND_BYTES, "bytes"},
    };
    size_t i = 0;

    while (known[i].kinds != kinds && known[i].kinds != TLC_KIND_BYTES)
        i++;
    return known[i].words;
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static void say_nearest(tlc_text *w, const tlc_nearest *nearest)
{
    if (nearest->word)
        tlc_text_format(w, " (did you mean %s?)", nearest->word);
}

static void say_all_names(tlc_text *w)
{
    const tlc_short_name *known;
    const tlc_stage *stage;

    tlc_text_say(w, "; there are ");
    for (size_t i = 0; (known = tlc_codec_built_name(i)) != NULL; i++)
        tlc_text_format(w, "%s, ", known->name);
    for (size_t i = 0; (stage = tlc_codec_built_stage(i)) != NULL; i++)
        tlc_text_format(w, tlc_codec_built_stage(i + 1) ? "%s, " : "%s", stage->name);
}

/* The nearest name, and all names if they fit: a list that is cut would look complete. */
static void say_names(tlc_text *w, tlc_nearest nearest)
{
    const tlc_short_name *known;
    const tlc_stage *stage;
    char list[TLC_MESSAGE_SIZE];
    tlc_text all = tlc_text_in(list, sizeof list);

    for (size_t i = 0; (known = tlc_codec_built_name(i)) != NULL; i++)
        tlc_nearest_offer(&nearest, known->name);
    for (size_t i = 0; (stage = tlc_codec_built_stage(i)) != NULL; i++)
        tlc_nearest_offer(&nearest, stage->name);
    say_nearest(w, &nearest);
    say_all_names(&all);
    if (all.at < w->cap - w->at)
        tlc_text_say(w, list);
}

static void say_mismatch(tlc_text *w, const tlc_codec_error *e)
{
    tlc_text_format(w, "\"%s\" takes %s, but ", e->stage->name, kind_words(e->stage->takes));
    if (e->before)
        tlc_text_format(w, "\"%s\" before it gives %s", e->before->name, kind_words(e->before->gives));
    else
        tlc_text_say(w, "a codec starts from floats");
}

/* The last stage gives no bytes: says which stages can follow. */
static void say_open_end(tlc_text *w, const tlc_codec_error *e)
{
    const char *before = "; add ";
    const tlc_stage *next;

    tlc_text_format(w, "\"%s\" gives %s, which is not a frame yet", e->stage->name, kind_words(e->stage->gives));
    for (size_t i = 0; (next = tlc_codec_built_stage(i)) != NULL; i++)
        if (next->takes & e->stage->gives) {
            tlc_text_format(w, "%s+%s", before, next->name);
            before = " or ";
        }
}

static void say_key(tlc_text *w, const tlc_codec_error *e, tlc_nearest nearest)
{
    tlc_text_format(w, "\"%s\" has no such parameter", e->stage->name);
    if (!e->stage->quantize)
        return;
    for (size_t i = 0; i < e->stage->param_count; i++)
        tlc_nearest_offer(&nearest, e->stage->params[i].key);
    tlc_nearest_offer(&nearest, tlc_codec_block.key);
    say_nearest(w, &nearest);
    tlc_text_say(w, "; it has ");
    for (size_t i = 0; i < e->stage->param_count; i++)
        tlc_text_format(w, "%s, ", e->stage->params[i].key);
    tlc_text_say(w, tlc_codec_block.key);
}

static void say_range(tlc_text *w, const tlc_param *param, tlc_nearest nearest)
{
    tlc_text_format(w, "%s is %s", param->key, param->range);
    for (size_t i = 0; param->words && param->words[i]; i++)
        tlc_nearest_offer(&nearest, param->words[i]);
    say_nearest(w, &nearest);
}

static void say_error(tlc_text *w, const char *codec, const tlc_codec_error *e)
{
    const tlc_nearest nearest = tlc_nearest_to(codec + e->at, e->len);

    tlc_text_format(w, "at %zu: ", e->at);
    if (e->reason != TLC_CODEC_TOO_LONG && e->reason != TLC_CODEC_OPEN_END && e->reason != TLC_CODEC_MISMATCH) {
        tlc_text_quoted(w, codec + e->at, e->len);
        tlc_text_say(w, ": ");
    }
    switch (e->reason) {
    case TLC_CODEC_TOO_LONG: tlc_text_say(w, "longer than 127 characters"); break;
    case TLC_CODEC_NO_STAGE:
        tlc_text_say(w, "no codec or stage has this name");
        say_names(w, nearest);
        break;
    case TLC_CODEC_NOT_BUILT: tlc_text_format(w, "this build of the library lacks %s", e->stage->name); break;
    case TLC_CODEC_SHORT_NAME: tlc_text_say(w, "a short name stands alone, without +"); break;
    case TLC_CODEC_MISMATCH: say_mismatch(w, e); break;
    case TLC_CODEC_OPEN_END: say_open_end(w, e); break;
    case TLC_CODEC_NO_VALUE: tlc_text_say(w, "a parameter is key=value"); break;
    case TLC_CODEC_NO_KEY: say_key(w, e, nearest); break;
    case TLC_CODEC_TWICE: tlc_text_say(w, "given twice"); break;
    case TLC_CODEC_RANGE: say_range(w, e->param, nearest); break;
    }
}

void tlc_codec_say(tlc_text *w, const char *what, const char *text, size_t len)
{
    tlc_text_format(w, "%s ", what);
    if (w)
        tlc_text_quoted(w, text, len < TLC_CODEC_TEXT ? len : TLC_CODEC_TEXT - 1);
}

tlc_status tlc_codec_read_part(tlc_codec *codec, const char *what, const char *text, size_t len, tlc_text *w)
{
    tlc_codec_error error;
    tlc_status status = tlc_codec_parse(codec, text, len, &error);

    if (status && w) {
        tlc_codec_say(w, what, text, len);
        tlc_text_say(w, " ");
        say_error(w, text, &error);
    }
    return status;
}

tlc_status tlc_codec_read(tlc_codec *codec, const char *what, const char *text, tlc_text *w)
{
    return text ? tlc_codec_read_part(codec, what, text, strlen(text), w)
                : TLC_FAIL(w, TLC_ERR_PARAM, "%s is NULL", what);
}

tlc_status tlc_codec_check(const char *codec, char *message, size_t cap)
{
    tlc_codec_error error;
    tlc_codec parsed;
    tlc_text w = tlc_text_in(message, cap);
    tlc_status status = codec && (message || !cap) ? tlc_codec_parse(&parsed, codec, strlen(codec), &error)
                                                   : TLC_ERR_PARAM;

    if (status && codec && message)
        say_error(&w, codec, &error);
    else if (status)
        tlc_text_say(&w, "no codec string was given");
    return status;
}

/* ---- what there is ----------------------------------------------------------------------------------------------- */

_Static_assert(sizeof((tlc_codec_entry *)0)->param / sizeof(tlc_codec_param) >= TLC_MAX_PARAMS,
               "an entry holds them all");

#define WORDS_ADDRESS(name) &tlc_words_##name,
static const tlc_stage_words *words_of(const tlc_stage *stage)
{
    static const tlc_stage_words *const words[] = {TLC_STAGES(WORDS_ADDRESS)};
    size_t i = 0;

    while (tlc_codec_stage(i) != stage)
        i++;
    return words[i];
}

static void describe_quantizer(tlc_codec_entry *entry, const tlc_stage *stage)
{
    const tlc_quantizer *q = stage->quantize;

    entry->feedback = q->feedback;
    entry->symbols = q->makes == TLC_MAKES_SYMBOLS || (q->makes == TLC_MAKES_MEMBERS && !q->value_bits);
    entry->sparse = q->makes == TLC_MAKES_MEMBERS;
    entry->param_count = stage->param_count;
    for (size_t i = 0; i < stage->param_count; i++)
        entry->param[i] = (tlc_codec_param){stage->params[i].key, stage->params[i].range, words_of(stage)->params[i]};
}

#define MEANING_AND_SOURCE(name, list, parts, meaning, source) {meaning, source},
static void describe_short_name(tlc_codec_entry *entry, const tlc_short_name *known)
{
    static const char *const words[][2] = {TLC_SHORT_NAMES(MEANING_AND_SOURCE)};
    const size_t i = (size_t)(known - tlc_codec_short_name(0));
    tlc_codec codec;

    entry->kind = TLC_ENTRY_SHORT_NAME;
    entry->codec = 1;
    entry->name = known->name;
    entry->list = known->list;
    entry->takes = kind_words(TLC_KIND_FLOATS);
    entry->gives = kind_words(TLC_KIND_BYTES);
    entry->meaning = words[i][0];
    entry->source = words[i][1];
    if (!tlc_codec_parse(&codec, known->name, strlen(known->name), NULL))
        describe_quantizer(entry, codec.quantizer);
}

static void describe_stage(tlc_codec_entry *entry, const tlc_stage *stage)
{
    entry->kind = stage->quantize ? TLC_ENTRY_QUANTIZER : stage->shrink ? TLC_ENTRY_SHRINKER : TLC_ENTRY_PACKER;
    entry->codec = stage->quantize && tlc_kind_is_payload(stage->gives);
    entry->name = stage->name;
    entry->takes = kind_words(stage->takes);
    entry->gives = kind_words(stage->gives);
    entry->meaning = words_of(stage)->meaning;
    entry->source = words_of(stage)->source ? words_of(stage)->source : "";
    if (stage->quantize)
        describe_quantizer(entry, stage);
}

tlc_status tlc_codec_list(size_t i, tlc_codec_entry *entry)
{
    tlc_codec_entry ours = {0};
    size_t names = 0;

    if (!entry || entry->struct_size < sizeof entry->struct_size)
        return TLC_ERR_PARAM;
    while (tlc_codec_built_name(names))
        names++;
    if (i < names)
        describe_short_name(&ours, tlc_codec_built_name(i));
    else if (tlc_codec_built_stage(i - names))
        describe_stage(&ours, tlc_codec_built_stage(i - names));
    else
        return TLC_ERR_SIZE;
    tlc_export(entry, &ours, sizeof ours);
    return TLC_OK;
}
