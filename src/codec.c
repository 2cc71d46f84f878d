/* SPDX-License-Identifier: MIT */
#include "codec.h"
#include "frame.h"
#include "stages/stage.h"

/* The registry: a line for each stage, and one for each short name. */
static const tlc_stage *const stages[] = {
    &tlc_stage_raw,
    &tlc_stage_ternary,
    &tlc_stage_quartic,
    &tlc_stage_zerorun,
};

static const struct {
    const char *name;
    const tlc_stage *list[3];
} short_names[] = {
    {"3lc", {&tlc_stage_ternary, &tlc_stage_quartic, &tlc_stage_zerorun}},
};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A part of a codec string. */
typedef struct span {
    const char *text;
    size_t len;
} span;

static int span_is(span s, const char *name)
{
    return strlen(name) == s.len && memcmp(s.text, name, s.len) == 0;
}

/* Cuts the part before the first separator off the front of *rest. Returns whether there was one. */
static int span_cut(span *rest, char separator, span *part)
{
    const char *found = rest->len ? memchr(rest->text, separator, rest->len) : NULL;

    *part = (span){rest->text, found ? (size_t)(found - rest->text) : rest->len};
    rest->text += part->len + (found != NULL);
    rest->len -= part->len + (found != NULL);
    return found != NULL;
}

/* ---- numbers --------------------------------------------------------------------------------------------------- */

/* whole + 0.digits, rounded half to even to mantissa bits: the fraction is doubled digit by digit, so that it is exact. */
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

static const tlc_stage *find_stage(span name)
{
    for (size_t i = 0; i < COUNT(stages); i++)
        if (span_is(name, stages[i]->name))
            return stages[i];
    return NULL;
}

/* Puts a stage behind the ones that are in the list; 0 if it does not fit there. */
static int append(tlc_codec *codec, const tlc_stage *stage)
{
    const tlc_stage *last = codec->shrink ? codec->shrink : codec->pack ? codec->pack : codec->value;

    if (!stage || stage->in != (last ? last->out : TLC_KIND_FLOATS))
        return 0;
    if (stage->value)
        codec->value = stage;
    else if (stage->coder)
        codec->pack = stage;
    else
        codec->shrink = stage;
    return 1;
}

static int set_block(tlc_codec *codec, span text)
{
    double value;

    if (codec->block || (text.len && memchr(text.text, '.', text.len)) ||
        !tlc_parse_number(text.text, text.len, 53, &value) || value < 1 || value > TLC_BLOCK_MAX)
        return 0;
    codec->block = (size_t)value;
    return 1;
}

/* key=value[,key=value]: parameters of the value stage, and block. */
static int set_params(tlc_codec *codec, const tlc_stage *stage, span rest)
{
    unsigned seen = 0;
    int more;

    do {
        span pair, key;

        more = span_cut(&rest, ',', &pair);
        if (!span_cut(&pair, '=', &key))
            return 0;
        size_t i = 0;
        while (i < stage->param_count && !span_is(key, stage->params[i].key))
            i++;
        if (i == stage->param_count) {
            if (!stage->value || !span_is(key, "block") || !set_block(codec, pair))
                return 0;
            continue;
        }
        const tlc_param *p = &stage->params[i];
        double *value = &codec->params[i];
        if (seen >> i & 1u || !tlc_parse_number(pair.text, pair.len, p->mantissa, value) || *value < p->least ||
            *value >= p->below)
            return 0;
        seen |= 1u << i;
    } while (more);
    return 1;
}

/* Appends what name stands for. alone: it is the whole codec, so short names count. */
static const tlc_stage *append_name(tlc_codec *codec, span name, int alone)
{
    for (size_t s = 0; alone && s < COUNT(short_names); s++) {
        if (!span_is(name, short_names[s].name))
            continue;
        for (size_t i = 0; i < COUNT(short_names[s].list) && short_names[s].list[i]; i++)
            (void)append(codec, short_names[s].list[i]); /* the registry's lists do fit */
        return short_names[s].list[0];
    }
    const tlc_stage *stage = find_stage(name);
    return append(codec, stage) ? stage : NULL;
}

static tlc_status parse(tlc_codec *codec, const char *text, size_t len)
{
    span rest = {text, len}, part;
    tlc_codec c = {0};
    int first = 1, more;

    if (len >= TLC_CODEC_TEXT)
        return TLC_ERR_PARAM;
    do {
        more = span_cut(&rest, '+', &part);
        span name;
        int has_params = span_cut(&part, ':', &name);
        const tlc_stage *stage = append_name(&c, name, first && !more);
        if (!stage)
            return TLC_ERR_PARAM;
        if (stage == c.value)
            for (size_t i = 0; i < stage->param_count; i++)
                c.params[i] = stage->params[i].fallback;
        if (has_params && !set_params(&c, stage, part))
            return TLC_ERR_PARAM;
        first = 0;
    } while (more);
    if (!c.pack && !c.value->coder) /* ends in symbols */
        return TLC_ERR_PARAM;
    *codec = c;
    return TLC_OK;
}

/* Numbers are made in the default float mode too: compilers convert in ways that trap where the caller unmasked traps. */
tlc_status tlc_codec_parse(tlc_codec *codec, const char *text, size_t len)
{
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = parse(codec, text, len);

    tlc_float_leave(mode);
    return status;
}

void tlc_codec_describe(const tlc_codec *codec, char text[TLC_CODEC_TEXT])
{
    const tlc_stage *list[] = {codec->value, codec->pack, codec->shrink};
    char digits[24];
    size_t at = 0, d = sizeof digits;

    for (size_t i = 0; i < COUNT(list); i++) {
        if (!list[i])
            continue;
        if (at)
            text[at++] = '+';
        memcpy(text + at, list[i]->name, strlen(list[i]->name));
        at += strlen(list[i]->name);
        if (i == 0 && codec->block) {
            for (size_t b = codec->block; b; b /= 10)
                digits[--d] = (char)('0' + b % 10);
            memcpy(text + at, ":block=", 7);
            memcpy(text + at + 7, digits + d, sizeof digits - d);
            at += 7 + sizeof digits - d;
        }
    }
    text[at] = 0;
}

/* ---- lists and their sizes --------------------------------------------------------------------------------------- */

int tlc_codec_from_ids(tlc_codec *codec, unsigned value, unsigned pack, unsigned shrink)
{
    tlc_codec c = {0};

    for (size_t i = 0; i < COUNT(stages); i++) {
        const tlc_stage *s = stages[i];
        if (s->value ? s->id == value : s->coder ? s->id == pack : s->id == shrink)
            if (!append(&c, s))
                return 0;
    }
    if (!c.value || !c.pack != !pack || !c.shrink != !shrink || (!c.pack && !c.value->coder))
        return 0;
    *codec = c;
    return 1;
}

size_t tlc_codec_entry_size(const tlc_codec *codec)
{
    return 4 * (size_t)codec->value->value->scalars + 4;
}

/* Every sum and product of sizes, with the overflow reported. */
static int add_product(size_t *sum, uint64_t a, uint64_t b)
{
    if (b && a > (SIZE_MAX - *sum) / b)
        return 0;
    *sum += (size_t)(a * b);
    return 1;
}

int tlc_codec_payload_bound(const tlc_codec *codec, tlc_dtype dtype, size_t n, size_t *bound)
{
    const tlc_coder_ops *coder = tlc_codec_coder(codec)->coder;
    size_t width = coder->width(dtype), total = 0;

    if (!codec->block) {
        if (!add_product(&total, coder->positions(n), width))
            return 0;
    } else {
        size_t whole = n / codec->block, last = n % codec->block;
        if (!add_product(&total, whole + (last != 0), tlc_codec_entry_size(codec)) ||
            !add_product(&total, whole, coder->positions(codec->block) * width) ||
            !add_product(&total, coder->positions(last), width))
            return 0;
    }
    *bound = total;
    return 1;
}

tlc_status tlc_codec_frame_bound(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t *bound)
{
    size_t total;

    if (!tlc_codec_payload_bound(codec, dtype, n, &total) ||
        !add_product(&total, 1, tlc_frame_header_size(codec, n) + (checksum ? TLC_CHECKSUM_SIZE : 0)))
        return TLC_ERR_SIZE;
    *bound = total;
    return TLC_OK;
}
