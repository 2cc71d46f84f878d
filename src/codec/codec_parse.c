/* SPDX-License-Identifier: MIT
 *
 * Parses codec strings. If a text is not a codec string, it says why.
 */
#include "codec.h"

/* A part of a codec string. */
typedef struct span {
    const char *text;
    size_t len;
} span;

static int span_is(span s, const char *name)
{
    return strlen(name) == s.len && memcmp(s.text, name, s.len) == 0;
}

/* Moves the part before the first separator from *rest to *part. Returns whether there was a separator. */
static int span_cut(span *rest, char separator, span *part)
{
    const char *found = rest->len ? memchr(rest->text, separator, rest->len) : NULL;

    *part = (span){rest->text, found ? (size_t)(found - rest->text) : rest->len};
    rest->text += part->len + (found != NULL);
    rest->len -= part->len + (found != NULL);
    return found != NULL;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* whole + 0.digits, rounded half to even to `mantissa` bits. It is exact: the decimal fraction is doubled digit by
 * digit. */
static double round_decimal(uint64_t whole, uint8_t *digits, size_t count, int mantissa)
{
    uint64_t bits = whole;
    int exponent = 0, width = 0, rest = 0;

    while (width < 64 && whole >> width)
        width++;
    for (; width < mantissa + 1 && exponent > -1100; exponent--) { /* one bit more than is kept */
        unsigned carry = 0;
        for (size_t i = count; i-- > 0;) {
            unsigned twice = 2u * digits[i] + carry;
            carry = twice >= 10;
            digits[i] = (uint8_t)(twice - 10 * carry);
        }
        bits = bits << 1 | carry;
        width += bits != 0;
    }
    for (size_t i = 0; i < count; i++)
        rest |= digits[i];
    int drop = width > mantissa ? width - mantissa : 0;
    if (drop) {
        uint64_t cut = bits & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
        bits >>= drop;
        bits += cut > half || (cut == half && (rest || (bits & 1)));
    }
    double value = (double)bits; /* at most 2^53: exact, and so is the scaling */
    for (exponent += drop; exponent > 0; exponent--)
        value *= 2.0;
    for (; exponent < 0; exponent++)
        value *= 0.5;
    return value;
}

int tlc_parse_number(const char *text, size_t len, int mantissa, double *value)
{
    uint8_t digits[TLC_CODEC_TEXT];
    uint64_t whole = 0;
    size_t count = 0, point = len;

    for (size_t i = 0; i < len; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (text[i] == '.' && point == len && i > 0 && i + 1 < len)
            point = i;
        else if (digit > 9 || (point == len ? whole > (UINT64_MAX - digit) / 10 : count == sizeof digits))
            return 0;
        else if (point == len)
            whole = whole * 10 + digit;
        else
            digits[count++] = (uint8_t)digit;
    }
    *value = round_decimal(whole, digits, count, mantissa);
    return len > 0;
}

/* ---- strings --------------------------------------------------------------------------------------------------- */

typedef struct parser {
    const char *text;
    tlc_codec codec;
    unsigned seen; /* parameters of the quantizer that were given */
    tlc_codec_error error;
} parser;

static int fail(parser *p, tlc_codec_reason reason, span where, const tlc_stage *stage)
{
    p->error.reason = reason;
    p->error.at = (size_t)(where.text - p->text);
    p->error.len = where.len;
    p->error.stage = stage;
    return 0;
}

static const tlc_stage *last_stage(const tlc_codec *codec)
{
    return codec->shrinker ? codec->shrinker : codec->packer ? codec->packer : codec->quantizer;
}

/* Appends a stage to the list. Returns 0 if it does not fit there. */
static int append(tlc_codec *codec, const tlc_stage *stage)
{
    const tlc_stage *last = last_stage(codec);

    if (!(stage->takes & (last ? (unsigned)last->gives : TLC_KIND_FLOATS)))
        return 0;
    if (stage->quantize)
        tlc_codec_fill(codec, stage, NULL, NULL);
    else if (stage->shrink)
        codec->shrinker = stage;
    else
        codec->packer = stage;
    return 1;
}

static const tlc_stage *find_stage(span name)
{
    const tlc_stage *stage;

    for (size_t i = 0; (stage = tlc_codec_stage(i)) != NULL; i++)
        if (span_is(name, stage->name))
            return stage;
    return NULL;
}

static const tlc_short_name *find_short_name(span name)
{
    const tlc_short_name *known;

    for (size_t i = 0; (known = tlc_codec_short_name(i)) != NULL; i++)
        if (span_is(name, known->name))
            break;
    return known;
}

/* Appends the stages of a short name. Returns the quantizer, which takes the parameters. */
static const tlc_stage *append_list(parser *p, span short_name, const char *list)
{
    span rest = {list, strlen(list)}, name;
    int more;

    do {
        more = span_cut(&rest, '+', &name);
        const tlc_stage *stage = find_stage(name);
        if (!tlc_stage_built(stage)) {
            (void)fail(p, TLC_CODEC_NOT_BUILT, short_name, stage);
            return NULL;
        }
        (void)append(&p->codec, stage); /* always fits: the list is ours */
    } while (more);
    return p->codec.quantizer;
}

/* Appends a stage or a short name. only: it is the whole list, so it may be a short name. */
static const tlc_stage *append_name(parser *p, span name, int only)
{
    const tlc_stage *stage = find_stage(name);
    const tlc_short_name *known = find_short_name(name);

    if (known && only)
        return append_list(p, name, known->list);
    p->error.before = last_stage(&p->codec);
    if (!stage)
        (void)fail(p, known ? TLC_CODEC_SHORT_NAME : TLC_CODEC_NO_STAGE, name, NULL);
    else if (!tlc_stage_built(stage))
        (void)fail(p, TLC_CODEC_NOT_BUILT, name, stage);
    else if (append(&p->codec, stage))
        return stage;
    else
        (void)fail(p, TLC_CODEC_MISMATCH, name, stage);
    return NULL;
}

static int read_word(const tlc_param *param, span text, double *value)
{
    for (size_t i = 0; param->words[i]; i++)
        if (span_is(text, param->words[i])) {
            *value = (double)i;
            return 1;
        }
    return 0;
}

static int read_value(const tlc_param *param, span text, double *value)
{
    if (param->words)
        return read_word(param, text, value);
    if (!param->mantissa && text.len && memchr(text.text, '.', text.len))
        return 0;
    return tlc_parse_number(text.text, text.len, param->mantissa ? param->mantissa : 53, value) &&
           *value >= param->least && *value < param->below;
}

/* Sets a parameter of the quantizer, or block, from key=value. */
static int set_param(parser *p, const tlc_stage *stage, span pair)
{
    const tlc_param *param = &tlc_codec_block;
    span key, whole = pair;
    double value;
    size_t i = 0;

    if (!span_cut(&pair, '=', &key))
        return fail(p, TLC_CODEC_NO_VALUE, whole, stage);
    while (i < stage->param_count && !span_is(key, stage->params[i].key))
        i++;
    if (i < stage->param_count)
        param = &stage->params[i];
    else if (stage->quantize && span_is(key, tlc_codec_block.key))
        i = TLC_MAX_PARAMS;
    else
        return fail(p, TLC_CODEC_NO_KEY, key, stage);
    p->error.param = param;
    if (p->seen >> i & 1u)
        return fail(p, TLC_CODEC_TWICE, key, stage);
    if (!read_value(param, pair, &value))
        return fail(p, TLC_CODEC_RANGE, pair, stage);
    p->seen |= 1u << i;
    if (param == &tlc_codec_block)
        p->codec.block = (size_t)value;
    else
        p->codec.params[i] = value;
    return 1;
}

static int parse(parser *p, span rest)
{
    const tlc_stage *stage;
    span part, whole = rest;
    int first = 1, more;

    if (rest.len >= TLC_CODEC_TEXT)
        return fail(p, TLC_CODEC_TOO_LONG, rest, NULL);
    do {
        more = span_cut(&rest, '+', &part);
        span name, pair;
        int params = span_cut(&part, ':', &name);
        stage = append_name(p, name, first && !more);
        if (!stage)
            return 0;
        while (params) {
            params = span_cut(&part, ',', &pair);
            if (!set_param(p, stage, pair))
                return 0;
        }
        first = 0;
    } while (more);
    stage = last_stage(&p->codec);
    if (!tlc_kind_is_payload(stage->gives))
        return fail(p, TLC_CODEC_OPEN_END, (span){whole.text + whole.len, 0}, stage);
    return 1;
}

/* Numbers need the default float mode: conversions may raise exceptions, which trap if the caller has unmasked them. */
tlc_status tlc_codec_parse(tlc_codec *codec, const char *text, size_t len, tlc_codec_error *error)
{
    parser p = {.text = text};
    tlc_float_mode mode = tlc_float_enter();
    int ok = parse(&p, (span){text, len});

    tlc_float_leave(mode);
    if (ok)
        *codec = p.codec;
    else if (error)
        *error = p.error;
    return ok ? TLC_OK : p.error.reason == TLC_CODEC_NOT_BUILT ? TLC_ERR_UNSUPPORTED : TLC_ERR_PARAM;
}

int tlc_codec_copy(const char *bytes, size_t len, char text[TLC_CODEC_TEXT])
{
    tlc_codec codec;

    if (tlc_codec_parse(&codec, bytes, len, NULL)) /* fails for a NUL or a long text */
        return 0;
    memcpy(text, bytes, len);
    text[len] = 0;
    return 1;
}
