/* SPDX-License-Identifier: MIT
 *
 * tlc_codec_check and tlc_codec_list: what is wrong with a codec string, and which codecs there are.
 */
#include "../common/structs.h"
#include "codec.h"
#include "nearest.h"

static void say_stage(tlc_text *w, const tlc_stage *stage)
{
    tlc_text_quoted(w, stage->name, strlen(stage->name));
}

static const char *kind_words(unsigned kinds)
{
    switch (kinds) {
    case TLC_KIND_FLOATS: return "floats";
    case TLC_KIND_TERNARY: return "3-value symbols";
    case TLC_KIND_BINARY: return "binary symbols";
    case TLC_KIND_MEMBERS: return "members";
    case TLC_KIND_TERNARY | TLC_KIND_BINARY | TLC_KIND_MEMBERS: return "3-value or binary symbols, or members";
    case TLC_KIND_QUARTIC: return "quartic bytes";
    default: return "bytes";
    }
}

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

static void say_nearest(tlc_text *w, const tlc_nearest *nearest)
{
    if (!nearest->word)
        return;
    tlc_text_say(w, " (did you mean ");
    tlc_text_say(w, nearest->word);
    tlc_text_say(w, "?)");
}

static void say_all_names(tlc_text *w)
{
    const tlc_short_name *known;
    const tlc_stage *stage;

    tlc_text_say(w, "; there are ");
    for (size_t i = 0; (known = tlc_codec_built_name(i)) != NULL; i++) {
        tlc_text_say(w, known->name);
        tlc_text_say(w, ", ");
    }
    for (size_t i = 0; (stage = tlc_codec_built_stage(i)) != NULL; i++) {
        tlc_text_say(w, stage->name);
        tlc_text_say(w, tlc_codec_built_stage(i + 1) ? ", " : "");
    }
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
    say_stage(w, e->stage);
    tlc_text_say(w, " takes ");
    tlc_text_say(w, kind_words(e->stage->takes));
    tlc_text_say(w, ", but ");
    if (e->before) {
        say_stage(w, e->before);
        tlc_text_say(w, " before it gives ");
        tlc_text_say(w, kind_words(e->before->gives));
    } else
        tlc_text_say(w, "a codec starts from floats");
}

/* The last stage gives no bytes: says which stages can follow. */
static void say_open_end(tlc_text *w, const tlc_codec_error *e)
{
    const char *before = "; add ";
    const tlc_stage *next;

    say_stage(w, e->stage);
    tlc_text_say(w, " gives ");
    tlc_text_say(w, kind_words(e->stage->gives));
    tlc_text_say(w, ", which is not a frame yet");
    for (size_t i = 0; (next = tlc_codec_built_stage(i)) != NULL; i++)
        if (next->takes & e->stage->gives) {
            tlc_text_say(w, before);
            tlc_text_say(w, "+");
            tlc_text_say(w, next->name);
            before = " or ";
        }
}

static void say_key(tlc_text *w, const tlc_codec_error *e, tlc_nearest nearest)
{
    say_stage(w, e->stage);
    tlc_text_say(w, " has no such parameter");
    if (!e->stage->quantize)
        return;
    for (size_t i = 0; i < e->stage->param_count; i++)
        tlc_nearest_offer(&nearest, e->stage->params[i].key);
    tlc_nearest_offer(&nearest, tlc_codec_block.key);
    say_nearest(w, &nearest);
    tlc_text_say(w, "; it has ");
    for (size_t i = 0; i < e->stage->param_count; i++) {
        tlc_text_say(w, e->stage->params[i].key);
        tlc_text_say(w, ", ");
    }
    tlc_text_say(w, tlc_codec_block.key);
}

static void say_range(tlc_text *w, const tlc_param *param, tlc_nearest nearest)
{
    tlc_text_say(w, param->key);
    tlc_text_say(w, " is ");
    tlc_text_say(w, param->range);
    for (size_t i = 0; param->words && param->words[i]; i++)
        tlc_nearest_offer(&nearest, param->words[i]);
    say_nearest(w, &nearest);
}

static void say_error(tlc_text *w, const char *codec, const tlc_codec_error *e)
{
    const tlc_nearest nearest = tlc_nearest_to(codec + e->at, e->len);

    tlc_text_say(w, "at ");
    tlc_text_number(w, e->at);
    tlc_text_say(w, ": ");
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

static void describe_quantizer(tlc_codec_entry *entry, const tlc_stage *stage)
{
    const tlc_quantizer *q = stage->quantize;

    entry->feedback = q->feedback;
    entry->symbols = q->makes == TLC_MAKES_SYMBOLS || (q->makes == TLC_MAKES_MEMBERS && !q->value_bits);
    entry->sparse = q->makes == TLC_MAKES_MEMBERS;
    entry->param_count = stage->param_count;
    for (size_t i = 0; i < stage->param_count; i++)
        entry->param[i] = (tlc_codec_param){stage->params[i].key, stage->params[i].range, stage->params[i].meaning};
}

static void describe_short_name(tlc_codec_entry *entry, const tlc_short_name *known)
{
    tlc_codec codec;

    entry->kind = TLC_ENTRY_SHORT_NAME;
    entry->codec = 1;
    entry->name = known->name;
    entry->list = known->list;
    entry->takes = kind_words(TLC_KIND_FLOATS);
    entry->gives = kind_words(TLC_KIND_BYTES);
    entry->meaning = known->meaning;
    entry->source = known->source;
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
    entry->meaning = stage->meaning;
    entry->source = stage->source ? stage->source : "";
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
