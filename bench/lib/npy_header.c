/* SPDX-License-Identifier: MIT
 *
 * The header of a .npy file: "\x93NUMPY", major and minor version, the length of the dict (u16 in version 1.0, later
 * u32, little-endian), then a Python dict with exactly the keys descr, fortran_order and shape.
 *
 * NumPy takes any text that Python reads as such a dict, so this takes what programs write: any order of keys, blanks
 * and line ends anywhere, either quote, commas at the end, and Python 2's 4L.
 */
#include "npy_header.h"
#include "explain.h"
#include <inttypes.h>
#include <string.h>

/* ---- the dict ---------------------------------------------------------------------------------------------------- */

typedef struct cursor {
    const char *at, *end;
} cursor;

typedef struct dict {
    bool has_descr, has_order, has_shape;
    char descr[NPY_DESCR_TEXT]; /* as it stands in the file, cut if it is longer; of a string without its quotes */
    bool is_string;             /* descr is a string that is not cut; others describe fields */
    bool fortran;
    size_t dims;
    uint64_t shape[NPY_MAX_DIMS];
} dict;

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && *c->at && strchr(" \t\r\n\f", *c->at))
        c->at++;
}

/* Skips blanks, and then ch if it is there. */
static bool accept(cursor *c, char ch)
{
    skip_blanks(c);
    if (c->at == c->end || *c->at != ch)
        return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word)
{
    size_t len = strlen(word);

    skip_blanks(c);
    if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len) != 0)
        return false;
    c->at += len;
    return true;
}

/* Moves past a quoted string without escapes. *start, *len: what is between the quotes. */
static bool skip_string(cursor *c, const char **start, size_t *len)
{
    char quote;

    skip_blanks(c);
    if (c->at < c->end && *c->at == 'u') /* of Python 2 */
        c->at++;
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    quote = *c->at++;
    *start = c->at;
    while (c->at < c->end && *c->at != quote) {
        if (*c->at == '\\' || *c->at == '\n')
            return false;
        c->at++;
    }
    *len = (size_t)(c->at - *start);
    return accept(c, quote);
}

/* Moves past a list or a tuple, with all that is in it. */
static bool skip_brackets(cursor *c)
{
    size_t depth = 0, len;
    const char *start;

    do {
        skip_blanks(c);
        if (c->at == c->end)
            return false;
        if (*c->at == '\'' || *c->at == '"') {
            if (!skip_string(c, &start, &len))
                return false;
            continue;
        }
        depth += *c->at == '[' || *c->at == '(';
        depth -= *c->at == ']' || *c->at == ')';
        c->at++;
    } while (depth);
    return true;
}

/* Keeps what may be printed. */
static void keep_text(char *dst, size_t size, const char *text, size_t len)
{
    size_t kept = len < size ? len : size - 1;

    for (size_t i = 0; i < kept; i++)
        dst[i] = text[i] < ' ' || text[i] > '~' ? '?' : text[i];
    dst[kept] = '\0';
}

static bool parse_descr(cursor *c, dict *d)
{
    const char *start;
    size_t len;

    skip_blanks(c);
    start = c->at;
    if (c->at < c->end && (*c->at == '[' || *c->at == '(')) {
        if (!skip_brackets(c))
            return false;
        len = (size_t)(c->at - start);
    } else {
        if (!skip_string(c, &start, &len))
            return false;
        d->is_string = len < sizeof d->descr;
    }
    keep_text(d->descr, sizeof d->descr, start, len);
    return true;
}

static bool parse_number(cursor *c, uint64_t *value)
{
    const char *start;

    skip_blanks(c);
    start = c->at;
    for (*value = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++) {
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*c->at - '0'), value))
            return false;
    }
    if (c->at == start)
        return false;
    if (*start == '0' && *value) { /* 04 is no number in Python; 00 is */
        c->at = start;
        return false;
    }
    (void)accept(c, 'L'); /* of Python 2 */
    return true;
}

/* A tuple of numbers: (), (5,), (5, 7), (5, 7,) ... but not (5), which is a number in Python. */
static bool parse_shape(cursor *c, dict *d)
{
    bool comma = true;

    if (!accept(c, '('))
        return false;
    for (d->dims = 0; !accept(c, ')'); d->dims++) {
        if (!comma || d->dims == NPY_MAX_DIMS || !parse_number(c, &d->shape[d->dims]))
            return false;
        comma = accept(c, ',');
    }
    return d->dims != 1 || comma;
}

static bool is_key(const char *text, size_t len, const char *key)
{
    return len == strlen(key) && !memcmp(text, key, len);
}

static bool parse_item(cursor *c, dict *d)
{
    const char *key;
    size_t len;
    bool *seen, ok;

    if (!skip_string(c, &key, &len) || !accept(c, ':'))
        return false;
    if (is_key(key, len, "descr")) {
        seen = &d->has_descr;
        ok = parse_descr(c, d);
    } else if (is_key(key, len, "fortran_order")) {
        seen = &d->has_order;
        d->fortran = accept_word(c, "True");
        ok = d->fortran || accept_word(c, "False");
    } else if (is_key(key, len, "shape")) {
        seen = &d->has_shape;
        ok = parse_shape(c, d);
    } else {
        c->at = key;
        return false;
    }
    ok = ok && !*seen;
    *seen = true;
    return ok;
}

/* Says where the cursor stopped, and what is there. */
static bool malformed(const cursor *c, const char *start, char *why)
{
    char found[25];

    if (c->at == c->end)
        return explain(why, "its header is malformed: it ends too early");
    keep_text(found, sizeof found, c->at, (size_t)(c->end - c->at));
    return explain(why, "its header is malformed at character %zu: %s", (size_t)(c->at - start), found);
}

static bool parse_dict(cursor *c, dict *d, char *why)
{
    const char *start = c->at;
    bool comma = true;

    if (!accept(c, '{'))
        return malformed(c, start, why);
    while (!accept(c, '}')) {
        if (!comma || !parse_item(c, d))
            return malformed(c, start, why);
        comma = accept(c, ',');
    }
    skip_blanks(c);
    if (c->at < c->end)
        return malformed(c, start, why);
    if (d->has_descr && d->has_order && d->has_shape)
        return true;
    return explain(why, "its header is malformed: it has no '%s'",
                   !d->has_descr   ? "descr"
                   : !d->has_order ? "fortran_order"
                                   : "shape");
}

/* ---- the dtype --------------------------------------------------------------------------------------------------- */

static const struct {
    const char *descr;
    tlc_dtype dtype;
    bool ordered; /* < > = or | may stand before it */
} descrs[] = {
    {"f4", TLC_F32, true},  {"f", TLC_F32, true},  {"float32", TLC_F32, false}, {"single", TLC_F32, false},
    {"f2", TLC_F16, true},  {"e", TLC_F16, true},  {"float16", TLC_F16, false}, {"half", TLC_F16, false},
    {"u2", TLC_BF16, true}, {"H", TLC_BF16, true}, {"uint16", TLC_BF16, false}, {"ushort", TLC_BF16, false},
    {"V2", TLC_BF16, true},
};

/* Without < or > values are in the order of the machine that reads them. */
static bool find_dtype(const dict *d, npy_header *header)
{
    const bool has_order = *d->descr && strchr("<>=|", *d->descr);

    header->big_endian = *d->descr == '>' || (*d->descr != '<' && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    for (size_t i = 0; d->is_string && i < sizeof descrs / sizeof descrs[0]; i++) {
        if (!strcmp(d->descr + has_order, descrs[i].descr) && (!has_order || descrs[i].ordered)) {
            header->dtype = descrs[i].dtype;
            header->width = header->dtype == TLC_F32 ? 4 : 2;
            return true;
        }
    }
    return false;
}

static void describe(const dict *d, npy_header *header)
{
    const char *quote = d->is_string ? "'" : "";

    snprintf(header->descr, sizeof header->descr, "%s%s%s", quote, d->descr, quote);
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

/* Finds the dict of the header, between *text and *end. */
static bool find_dict(const unsigned char *bytes, size_t len, size_t *text, size_t *end, char *why)
{
    static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};
    uint64_t size = 0;

    if (!len)
        return explain(why, "is empty");
    if (memcmp(bytes, magic, len < sizeof magic ? len : sizeof magic) != 0)
        return explain(why, "is not a .npy file");
    if (len < 12)
        return explain(why, "is truncated in its header");
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return explain(why, ".npy version %d.%d is not supported (1.0, 2.0 and 3.0 are)", bytes[6], bytes[7]);
    size = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
    *text = 10;
    if (bytes[6] > 1) {
        size |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
        *text = 12;
    }
    if (size > NPY_HEADER_MAX - 12)
        return explain(why, "its header of %" PRIu64 " bytes is too long", size);
    if (size > len - *text)
        return explain(why, "is truncated in its header");
    *end = *text + (size_t)size;
    return true;
}

/* Rows and columns. An array with at most one dimension that is not 1 is the same in both orders. */
static bool take_shape(const dict *d, npy_header *header, char *why)
{
    uint64_t first = d->dims ? d->shape[0] : 1, others = 1;
    bool overflow = false;
    size_t long_dims = 0;

    for (size_t i = 0; i < d->dims; i++) {
        long_dims += d->shape[i] != 1;
        overflow = overflow || (i && __builtin_mul_overflow(others, d->shape[i], &others));
        header->shape[i] = d->shape[i];
    }
    if (overflow)
        return explain(why, "its shape is too large");
    header->dims = (unsigned)d->dims;
    header->rows = d->dims < 2 ? 1 : first;
    header->cols = d->dims < 2 ? first : others;
    header->fortran = d->fortran && long_dims > 1;
    return true;
}

bool npy_parse_header(const void *bytes, size_t len, uint64_t file_size, npy_header *header, char *why)
{
    dict d = {.dims = 0};
    size_t text = 0, end = 0;
    uint64_t row, size;

    *header = (npy_header){.rows = 0};
    if (!find_dict(bytes, len, &text, &end, why))
        return false;
    cursor c = {(const char *)bytes + text, (const char *)bytes + end};
    if (!parse_dict(&c, &d, why))
        return false;
    header->offset = end;
    describe(&d, header);
    header->other_dtype = !find_dtype(&d, header);
    if (header->other_dtype)
        return explain(why, "dtype %s is not supported ('<f2', '<f4', and '<u2' or '<V2' for bf16 are)", header->descr);
    if (!take_shape(&d, header, why))
        return false;
    if (__builtin_mul_overflow(header->cols, header->width, &row) || row > SIZE_MAX ||
        __builtin_mul_overflow(row, header->rows, &size))
        return explain(why, "its shape (%" PRIu64 ", %" PRIu64 ") is too large", header->rows, header->cols);
    if (file_size - end < size)
        return explain(why, "its shape needs %" PRIu64 " bytes of values, the file has %" PRIu64, size,
                       file_size - end);
    header->trailing = file_size - end - size;
    return true;
}
