/* SPDX-License-Identifier: MIT */
#include "records.h"

/* ---- where we are, for messages ---- */

const char *at_name = "", *at_isa = "";
size_t at_step;

void expect(int ok, const char *what)
{
    if (!ok)
        fail_msg("%s, step %zu, %s: %s", at_name, at_step, at_isa, what);
}

void expect_status(tlc_status got, tlc_status want, const char *what)
{
    if (got != want)
        fail_msg("%s, step %zu, %s: %s: \"%s\" instead of \"%s\"", at_name, at_step, at_isa, what,
                 tlc_status_string(got), tlc_status_string(want));
}

/* ---- exact buffers, all freed at the end of a record ---- */

#define MAX_BUFFERS 128

static void *buffers[MAX_BUFFERS];
static size_t buffer_count;

void *exact(size_t size, size_t shift)
{
    size_t all = size + shift;
    char *p = malloc(all ? all : 4);
    if (!p || buffer_count == MAX_BUFFERS)
        fail_msg("%s: no memory for the test", at_name);
    buffers[buffer_count++] = p;
    return p + (all ? shift : 4); /* never NULL, and aligned if shift is 0 */
}

static void free_buffers(void)
{
    while (buffer_count)
        free(buffers[--buffer_count]);
}

/* ---- files of records ---- */

typedef struct file {
    char *text;
    line *lines;
    size_t count;
} file;

static file load(const char *path)
{
    file f = {NULL, NULL, 0};
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, 0, SEEK_END))
        fail_msg("cannot read %s", path);
    long size = ftell(in);
    if (fseek(in, 0, SEEK_SET))
        fail_msg("cannot read %s", path);
    f.text = size > 0 ? calloc((size_t)size + 1, 1) : NULL;
    if (!f.text || fread(f.text, 1, (size_t)size, in) != (size_t)size)
        fail_msg("cannot read %s", path);
    fclose(in);

    size_t lines = 1;
    for (const char *p = f.text; *p; p++)
        lines += *p == '\n';
    f.lines = calloc(lines + 1, sizeof *f.lines);
    if (!f.lines)
        fail_msg("no memory for %s", path);
    for (char *p = f.text; *p;) {
        char *end = strchr(p, '\n');
        char *next = end ? end + 1 : p + strlen(p);
        if (end)
            *end = 0;
        char *space = strchr(p, ' ');
        if (*p == 0) {
            f.count++;
        } else if (*p != '#') {
            if (!space)
                fail_msg("%s: a line without a value: %s", path, p);
            *space = 0;
            f.lines[f.count++] = (line){p, space + 1};
        }
        p = next;
    }
    f.count++; /* the last record ends as well */
    return f;
}

static void unload(file *f)
{
    free(f->lines);
    free(f->text);
}

size_t each_record(const char *path, tlc_isa isa, record_test *test)
{
    size_t records = 0;
    file f = load(path);
    for (size_t i = 0; i < f.count;) {
        size_t j = i;
        while (j < f.count && f.lines[j].key)
            j++;
        if (j > i) {
            at_name = f.lines[i].value;
            at_step = 0;
            test(&f.lines[i], isa);
            free_buffers();
            records++;
        }
        i = j + 1;
    }
    unload(&f);
    return records;
}

const char *find(const line *r, const char *key)
{
    for (; r->key; r++)
        if (!strcmp(r->key, key))
            return r->value;
    return NULL;
}

const char *get(const line *r, const char *key)
{
    const char *value = find(r, key);
    if (!value)
        fail_msg("%s: no %s", at_name, key);
    return value;
}

uint64_t number(const line *r, const char *key)
{
    return strtoull(get(r, key), NULL, 10);
}

static size_t name_index(const char *value, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(value, names[i]))
            return i;
    fail_msg("%s: what is %s?", at_name, value);
    return 0;
}

tlc_dtype dtype_of(const line *r)
{
    return (tlc_dtype)name_index(get(r, "dtype"), dtype_name, COUNT(dtype_name));
}

tlc_status status_of(const line *r, const char *key)
{
    static const char *const names[] = {"OK",      "PARAM",    "NOMEM",     "CAPACITY", "NONFINITE",
                                        "CORRUPT", "CHECKSUM", "VERSION",   "SIZE",     "UNSUPPORTED",
                                        "STEP",    "ORDER",    "TRANSPORT", "BASE"};

    return (tlc_status)name_index(get(r, key), names, COUNT(names));
}

static unsigned digit(char c)
{
    return c >= 'a' ? (unsigned)(c - 'a') + 10 : (unsigned)(c - '0');
}

octets unhex(const char *hex, size_t shift)
{
    size_t len = strcmp(hex, "-") ? strlen(hex) / 2 : 0;
    octets b = {exact(len, shift), len};
    for (size_t i = 0; i < len; i++)
        b.p[i] = (uint8_t)(digit(hex[2 * i]) << 4 | digit(hex[2 * i + 1]));
    return b;
}

/* From the byte order of the files, little-endian, to that of the machine, or back. */
static void swap_elements(void *p, size_t len, size_t size)
{
    const uint16_t one = 1;
    uint8_t *b = p;
    if (*(const uint8_t *)&one)
        return;
    for (size_t i = 0; i + size <= len; i += size)
        for (size_t j = 0; j < size / 2; j++) {
            uint8_t t = b[i + j];
            b[i + j] = b[i + size - 1 - j];
            b[i + size - 1 - j] = t;
        }
}

octets elements(const char *hex, size_t size, size_t shift)
{
    octets b = unhex(hex, shift);
    swap_elements(b.p, b.len, size);
    return b;
}
