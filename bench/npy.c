/* SPDX-License-Identifier: MIT
 *
 * The header of a .npy file: "\x93NUMPY", major and minor version, the length of the dict (u16 in version 1.0, later
 * u32, little-endian), then a Python dict with exactly the keys descr, fortran_order and shape, blanks, and a
 * newline.
 */
#include "npy.h"
#include "explain.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the dict ---------------------------------------------------------------------------------------------------- */

typedef struct cursor {
    const char *at, *end;
} cursor;

typedef struct dict {
    bool has_descr, has_order, has_shape;
    char descr[8];
    bool fortran;
    unsigned dims;
    uint64_t rows, cols; /* the first dimension, the product of the others */
    bool overflow;       /* of that product */
} dict;

static void skip_blanks(cursor *c)
{
    while (c->at < c->end && *c->at == ' ')
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

/* A quoted string of printable characters without escapes, shorter than size. */
static bool parse_string(cursor *c, char *dst, size_t size)
{
    char quote;
    size_t len = 0;

    if (accept(c, '\''))
        quote = '\'';
    else if (accept(c, '"'))
        quote = '"';
    else
        return false;
    for (; c->at < c->end && *c->at != quote; c->at++) {
        if (*c->at < ' ' || *c->at > '~' || *c->at == '\\' || len + 1 == size)
            return false;
        dst[len++] = *c->at;
    }
    dst[len] = '\0';
    return accept(c, quote);
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
    return c->at > start;
}

/* A tuple of numbers: (), (5,), (5, 7), (5, 7,) ... but not (5), which is a number in Python. */
static bool parse_shape(cursor *c, dict *d)
{
    bool comma = true;
    uint64_t value;

    if (!accept(c, '('))
        return false;
    for (d->dims = 0, d->cols = 1; !accept(c, ')'); d->dims++) {
        if (!comma || !parse_number(c, &value))
            return false;
        if (!d->dims)
            d->rows = value;
        else if (__builtin_mul_overflow(d->cols, value, &d->cols))
            d->overflow = true;
        comma = accept(c, ',');
    }
    if (d->dims == 1) {
        d->cols = d->rows;
        d->rows = 1;
    }
    return d->dims != 1 || comma;
}

static bool parse_item(cursor *c, dict *d)
{
    char key[16];
    bool *seen, ok;

    if (!parse_string(c, key, sizeof key) || !accept(c, ':'))
        return false;
    if (!strcmp(key, "descr")) {
        seen = &d->has_descr;
        ok = parse_string(c, d->descr, sizeof d->descr);
    } else if (!strcmp(key, "fortran_order")) {
        seen = &d->has_order;
        d->fortran = accept_word(c, "True");
        ok = d->fortran || accept_word(c, "False");
    } else if (!strcmp(key, "shape")) {
        seen = &d->has_shape;
        ok = parse_shape(c, d);
    } else {
        return false;
    }
    ok = ok && !*seen;
    *seen = true;
    return ok;
}

static bool parse_dict(cursor *c, dict *d)
{
    bool comma = true;

    if (!accept(c, '{'))
        return false;
    while (!accept(c, '}')) {
        if (!comma || !parse_item(c, d))
            return false;
        comma = accept(c, ',');
    }
    skip_blanks(c);
    return d->has_descr && d->has_order && d->has_shape && c->end - c->at == 1 && *c->at == '\n';
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
        return explain(why, ".npy version %d.%d is not supported", bytes[6], bytes[7]);
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

static const struct {
    const char *descr; /* behind the byte order */
    tlc_dtype dtype;
} descrs[] = {{"f4", TLC_F32}, {"f2", TLC_F16}, {"u2", TLC_BF16}, {"V2", TLC_BF16}};

/* NumPy reads more than this, but trainers write only such arrays. */
static bool check_dict(const dict *d, tlc_dtype *dtype, char *why)
{
    bool known = false;

    if (d->fortran)
        return explain(why, "is in Fortran order; only C order is supported");
    for (size_t i = 0; i < sizeof descrs / sizeof descrs[0]; i++) {
        if (d->descr[0] && !strcmp(d->descr + 1, descrs[i].descr)) {
            *dtype = descrs[i].dtype;
            known = strchr("<>", d->descr[0]) || !strcmp(d->descr, "|V2");
        }
    }
    if (!known)
        return explain(why, "dtype '%s' is not supported ('<f2', '<f4', and '<u2' or '<V2' for bf16 are)", d->descr);
    return d->dims || explain(why, "has 0 dimensions; at least 1 is needed");
}

bool npy_parse_header(const void *bytes, size_t len, uint64_t file_size, npy_header *header, char *why)
{
    dict d = {.dims = 0};
    tlc_dtype dtype = TLC_F32;
    size_t text = 0, end = 0;
    uint64_t row, size;

    if (!find_dict(bytes, len, &text, &end, why))
        return false;
    cursor c = {(const char *)bytes + text, (const char *)bytes + end};
    if (!parse_dict(&c, &d))
        return explain(why, "its header is malformed");
    if (!check_dict(&d, &dtype, why))
        return false;
    *header = (npy_header){
        .offset = end,
        .dims = d.dims,
        .rows = d.rows,
        .cols = d.cols,
        .width = (unsigned)(d.descr[2] - '0'),
        .dtype = dtype,
        .big_endian = d.descr[0] == '>',
    };
    if (d.overflow)
        return explain(why, "its shape is too large");
    if (__builtin_mul_overflow(header->cols, header->width, &row) || row > SIZE_MAX ||
        __builtin_mul_overflow(row, header->rows, &size))
        return explain(why, "its shape (%" PRIu64 ", %" PRIu64 ") is too large", header->rows, header->cols);
    if (file_size - end != size)
        return explain(why, "its shape needs %" PRIu64 " bytes of values, the file has %" PRIu64, size,
                       file_size - end);
    return true;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

/* Opens a regular file. Other files may block or have no size. */
static bool open_regular(npy_file *file, const char *path, uint64_t *size, char *why)
{
    struct stat st = {0}; /* MemorySanitizer of clang 14 does not see that fstat writes it */
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return explain(why, "%s", strerror(errno));
    if (fstat(fd, &st) != 0)
        explain(why, "%s", strerror(errno)); /* NOLINT(bugprone-branch-clone): the errors of two calls */
    else if (!S_ISREG(st.st_mode))
        explain(why, "is not a regular file");
    else if (!(file->stream = fdopen(fd, "rb")))
        explain(why, "%s", strerror(errno));
    else {
        *size = (uint64_t)st.st_size;
        return true;
    }
    close(fd);
    return false;
}

static bool read_header(npy_file *file, uint64_t size, char *why)
{
    size_t want = size < NPY_HEADER_MAX ? (size_t)size : NPY_HEADER_MAX;
    unsigned char *bytes = malloc(want + 1);
    bool ok;

    if (!bytes)
        return explain(why, "out of memory");
    if (fread(bytes, 1, want, file->stream) != want)
        ok = explain(why, "%s", ferror(file->stream) ? strerror(errno) : "is shorter than it was");
    else
        ok = npy_parse_header(bytes, want, size, &file->header, why);
    free(bytes);
    if (ok && fseek(file->stream, (long)file->header.offset, SEEK_SET) != 0)
        ok = explain(why, "%s", strerror(errno));
    return ok;
}

bool npy_open(npy_file *file, const char *path, char *why)
{
    uint64_t size = 0;

    if (!open_regular(file, path, &size, why))
        return false;
    if (read_header(file, size, why))
        return true;
    npy_close(file);
    return false;
}

bool npy_open_raw(npy_file *file, const char *path, tlc_dtype dtype, uint64_t row_values, char *why)
{
    const unsigned width = dtype == TLC_F32 ? 4 : 2;
    uint64_t size = 0, values, cols;

    if (!open_regular(file, path, &size, why))
        return false;
    values = size / width;
    cols = row_values ? row_values : values;
    if (!size)
        explain(why, "is empty");
    else if (size % width)
        explain(why, "its %" PRIu64 " bytes are not a multiple of %u", size, width);
    else if (values % cols)
        explain(why, "its %" PRIu64 " values are not rows of %" PRIu64, values, cols);
    else if (cols > SIZE_MAX / width)
        explain(why, "is too large");
    else {
        file->header = (npy_header){.dims = row_values ? 2 : 1,
                                    .rows = values / cols,
                                    .cols = cols,
                                    .width = width,
                                    .dtype = dtype};
        return true;
    }
    npy_close(file);
    return false;
}

static void swap_bytes(unsigned char *value, size_t count, unsigned width)
{
    for (; count; count--, value += width) {
        for (unsigned i = 0; i < width / 2; i++) {
            unsigned char byte = value[i];
            value[i] = value[width - 1 - i];
            value[width - 1 - i] = byte;
        }
    }
}

bool npy_read_row(npy_file *file, void *row, char *why)
{
    const npy_header *h = &file->header;
    const bool machine_big_endian = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    size_t count = (size_t)h->cols;

    if (count && fread(row, h->width, count, file->stream) != count)
        return explain(why, "%s", ferror(file->stream) ? strerror(errno) : "is shorter than it was");
    if (h->big_endian != machine_big_endian)
        swap_bytes(row, count, h->width);
    return true;
}

void npy_close(npy_file *file)
{
    fclose(file->stream);
    file->stream = NULL;
}
