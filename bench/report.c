/* SPDX-License-Identifier: MIT
 *
 * One list of columns serves all formats: CSV and JSON have all of them, table and Markdown those with a title. Each
 * group of rows starts with a row for memcpy, made of the memcpy passes of the codecs' own rounds.
 */
#include "report.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 64, CODEC_WIDTH_MAX = 40 };

typedef struct line {
    const report *report;
    const report_row *row; /* of memcpy: the group's first */
    bool copy;             /* the row of memcpy */
    speed memcpy;
} line;

/* ---- columns ------------------------------------------------------------------------------------------------------ */

typedef enum column_id {
    TENSOR, CODEC, ISA, DTYPE, FEEDBACK, STEPS, VALUES, ROUNDS, MEMCPY, MEMCPY_BEST, COMPRESS, COMPRESS_BEST, COMPRESS_X,
    DECOMPRESS, DECOMPRESS_BEST, DECOMPRESS_X, ADD, ADD_BEST, ADD_X, RATIO, BITS, NONZERO, STEP_ERROR, SUM_ERROR,
    RESIDUAL_X, RESIDUAL, FRAME_BYTES, CRC
} column_id;

typedef enum kind { TEXT, COUNT, REAL } kind;

static const struct column {
    column_id id;
    const char *key;
    kind kind;
    const char *title, *unit; /* NULL: not in tables */
    const char *format;       /* in tables */
} columns[] = {
    {TENSOR, "tensor", TEXT, NULL, NULL, NULL},
    {CODEC, "codec", TEXT, "codec", "", NULL},
    {ISA, "isa", TEXT, NULL, NULL, NULL},
    {DTYPE, "dtype", TEXT, NULL, NULL, NULL},
    {FEEDBACK, "feedback", COUNT, NULL, NULL, NULL},
    {STEPS, "steps", COUNT, NULL, NULL, NULL},
    {VALUES, "values", COUNT, NULL, NULL, NULL},
    {ROUNDS, "rounds", COUNT, NULL, NULL, NULL},
    {MEMCPY, "memcpy_gb_s", REAL, NULL, NULL, NULL},
    {MEMCPY_BEST, "memcpy_best_gb_s", REAL, NULL, NULL, NULL},
    {COMPRESS, "compress_gb_s", REAL, "compress", "GB/s", "%.2f"},
    {COMPRESS_BEST, "compress_best_gb_s", REAL, NULL, NULL, NULL},
    {COMPRESS_X, "compress_x_memcpy", REAL, "x memcpy", "", "%.3f"},
    {DECOMPRESS, "decompress_gb_s", REAL, "decompress", "GB/s", "%.2f"},
    {DECOMPRESS_BEST, "decompress_best_gb_s", REAL, NULL, NULL, NULL},
    {DECOMPRESS_X, "decompress_x_memcpy", REAL, "x memcpy", "", "%.3f"},
    {ADD, "decompress_add_gb_s", REAL, "decompress-add", "GB/s", "%.2f"},
    {ADD_BEST, "decompress_add_best_gb_s", REAL, NULL, NULL, NULL},
    {ADD_X, "decompress_add_x_memcpy", REAL, "x memcpy", "", "%.3f"},
    {RATIO, "ratio", REAL, "ratio", "", "%.2f"},
    {BITS, "bits_per_value", REAL, "bits per", "value", "%.4f"},
    {NONZERO, "nonzero_percent", REAL, "non-zero", "%", "%.3f"},
    {STEP_ERROR, "step_relative_error", REAL, "error of", "one step", "%.4f"},
    {SUM_ERROR, "sum_relative_error", REAL, "error of", "the sum", "%.1e"},
    {RESIDUAL_X, "residual_relative_norm", REAL, "residual", "rel.norm", "%.3f"},
    {RESIDUAL, "residual_norm", REAL, NULL, NULL, NULL},
    {FRAME_BYTES, "frame_bytes", COUNT, NULL, NULL, NULL},
    {CRC, "crc32", TEXT, NULL, NULL, NULL},
};
enum { COLUMNS = sizeof columns / sizeof columns[0] };

static const char *dtype_name(tlc_dtype dtype)
{
    return dtype == TLC_F32 ? "f32" : dtype == TLC_F16 ? "f16" : "bf16";
}

static const char *text_of(const line *l, column_id id, char *crc)
{
    switch (id) {
    case TENSOR: return l->row->tensor ? l->row->tensor->name : "";
    case CODEC: return l->copy ? "memcpy" : l->row->codec;
    case ISA: return l->copy ? "" : tlc_isa_name(l->row->verified.isa);
    case DTYPE: return dtype_name(l->report->source->dtype);
    case CRC:
        snprintf(crc, CELL, "%08" PRIx32, l->row->verified.crc);
        return l->copy ? "" : crc;
    default: return "";
    }
}

static bool count_of(const line *l, column_id id, uint64_t *count)
{
    const verified *v = &l->row->verified;

    switch (id) {
    case STEPS: *count = l->report->source->steps; return true;
    case VALUES: *count = v->values / l->report->source->steps; return true;
    case FEEDBACK: *count = v->feedback; return !l->copy;
    case ROUNDS: *count = l->row->measured.rounds; return !l->copy;
    case FRAME_BYTES: *count = v->frame_bytes; return !l->copy;
    default: return false;
    }
}

static double over(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : NAN;
}

static double memcpy_real_of(const line *l, column_id id)
{
    switch (id) {
    case MEMCPY: case COMPRESS: case DECOMPRESS: return l->memcpy.median;
    case MEMCPY_BEST: case COMPRESS_BEST: case DECOMPRESS_BEST: return l->memcpy.best;
    case COMPRESS_X: case DECOMPRESS_X: case RATIO: return isnan(l->memcpy.median) ? NAN : 1;
    case BITS: return l->row->verified.values ? 8 * (double)dtype_size(l->report->source->dtype) : NAN;
    default: return NAN;
    }
}

static double real_of(const line *l, column_id id)
{
    const verified *v = &l->row->verified;
    const speed *s = l->row->measured.speed;

    switch (id) {
    case MEMCPY: return s[OP_MEMCPY].median;
    case MEMCPY_BEST: return s[OP_MEMCPY].best;
    case COMPRESS: return s[OP_COMPRESS].median;
    case COMPRESS_BEST: return s[OP_COMPRESS].best;
    case COMPRESS_X: return s[OP_COMPRESS].median / s[OP_MEMCPY].median;
    case DECOMPRESS: return s[OP_DECOMPRESS].median;
    case DECOMPRESS_BEST: return s[OP_DECOMPRESS].best;
    case DECOMPRESS_X: return s[OP_DECOMPRESS].median / s[OP_MEMCPY].median;
    case ADD: return s[OP_ADD].median;
    case ADD_BEST: return s[OP_ADD].best;
    case ADD_X: return s[OP_ADD].median / s[OP_MEMCPY].median;
    case RATIO: return v->values ? over(v->input_bytes, v->frame_bytes) : NAN;
    case BITS: return 8 * over(v->frame_bytes, v->values);
    case NONZERO: return 100 * over(v->nonzero, v->values);
    case STEP_ERROR: return v->step_error;
    case SUM_ERROR: return v->sum_error;
    case RESIDUAL_X: return v->feedback && v->grad_norm > 0 ? v->residual_norm / v->grad_norm : NAN;
    case RESIDUAL: return v->feedback ? v->residual_norm : NAN;
    default: return NAN;
    }
}

/* The cell's text, in buffer or elsewhere; empty if there is no value. In tables reals are rounded. */
static const char *cell(const line *l, const struct column *c, bool rounded, char *buffer)
{
    double real;
    uint64_t count;

    buffer[0] = '\0';
    if (c->kind == TEXT)
        return text_of(l, c->id, buffer);
    if (c->kind == COUNT) {
        if (count_of(l, c->id, &count))
            snprintf(buffer, CELL, "%" PRIu64, count);
        return buffer;
    }
    real = l->copy ? memcpy_real_of(l, c->id) : real_of(l, c->id);
    if (!isfinite(real))
        return buffer;
    if (!rounded)
        snprintf(buffer, CELL, "%.9g", real);
    else if (c->id == SUM_ERROR && real >= 0.1) /* lost for want of feedback, so no rounding */
        snprintf(buffer, CELL, "%.4f", real);
    else
        snprintf(buffer, CELL, c->format, real);
    return buffer;
}

/* ---- lines -------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The median of the codecs' medians. */
static speed group_memcpy(const report_row *rows, size_t count)
{
    speed s = rows[0].measured.speed[OP_MEMCPY];
    double *medians = malloc(count * sizeof *medians);

    for (size_t i = 0; i < count; i++) {
        s.best = fmax(s.best, rows[i].measured.speed[OP_MEMCPY].best);
        if (medians)
            medians[i] = rows[i].measured.speed[OP_MEMCPY].median;
    }
    if (medians && !isnan(medians[0])) {
        qsort(medians, count, sizeof *medians, compare);
        s.median = (medians[(count - 1) / 2] + medians[count / 2]) / 2;
    }
    free(medians);
    return s;
}

/* Calls print for each line of a group. */
static void each_line(FILE *f, const report *r, size_t group, void (*print)(FILE *, const line *))
{
    const report_row *rows = r->rows + group * r->codecs;
    line l = {.report = r, .row = rows, .copy = true, .memcpy = group_memcpy(rows, r->codecs)};

    print(f, &l);
    l.copy = false;
    for (size_t i = 0; i < r->codecs; i++) {
        l.row = &rows[i];
        print(f, &l);
    }
}

/* Of the group's tensors: the name, or how many there are. */
static void print_heading(FILE *f, const report *r, size_t group)
{
    const report_row *row = &r->rows[group * r->codecs];
    uint64_t values = row->verified.values / r->source->steps;

    if (!group)
        fprintf(f, "libthreelc %s, ISA %s, %s: %zu tensor%s, %" PRIu64 " values a step, %zu step%s; "
                "every round trip verified\n", tlc_version_string(), tlc_isa_name(row->verified.isa),
                dtype_name(r->source->dtype), r->source->count, r->source->count == 1 ? "" : "s", values,
                r->source->steps, r->source->steps == 1 ? "" : "s");
    else
        fprintf(f, "\n%s: %" PRIu64 " values\n", row->tensor->name, values);
}

/* ---- table -------------------------------------------------------------------------------------------------------- */

static int codec_width(const report *r)
{
    size_t width = strlen("memcpy");

    for (size_t i = 0; i < r->codecs; i++)
        width = strlen(r->rows[i].codec) > width ? strlen(r->rows[i].codec) : width;
    return width < CODEC_WIDTH_MAX ? (int)width : CODEC_WIDTH_MAX;
}

static int column_width(const struct column *c)
{
    int width = (int)strlen(c->title);

    return width < 8 ? 8 : width;
}

static void table_line(FILE *f, const line *l)
{
    int width = codec_width(l->report);
    char buffer[CELL];

    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        if (!c->title)
            continue;
        const char *text = cell(l, c, true, buffer);
        if (c->id == CODEC && strlen(text) > CODEC_WIDTH_MAX)
            fprintf(f, "%.*s...", width - 3, text);
        else if (c->id == CODEC)
            fprintf(f, "%-*s", width, text);
        else
            fprintf(f, " %*s", column_width(c), *text ? text : "-");
    }
    fputc('\n', f);
}

static void print_table(FILE *f, const report *r)
{
    for (size_t group = 0; group * r->codecs < r->count; group++) {
        print_heading(f, r, group);
        for (int second = 0; second < 2; second++) {
            fprintf(f, "%-*s", codec_width(r), second ? "" : "codec");
            for (const struct column *c = columns; c < columns + COLUMNS; c++) {
                if (c->title && c->id != CODEC)
                    fprintf(f, " %*s", column_width(c), second ? c->unit : c->title);
            }
            fputc('\n', f);
        }
        each_line(f, r, group, table_line);
    }
}

/* ---- Markdown ------------------------------------------------------------------------------------------------------ */

static void markdown_line(FILE *f, const line *l)
{
    char buffer[CELL];

    fputc('|', f);
    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        if (!c->title)
            continue;
        const char *text = cell(l, c, true, buffer);
        fprintf(f, c->id == CODEC ? " `%s` |" : " %s |", *text ? text : "-");
    }
    fputc('\n', f);
}

static void print_markdown(FILE *f, const report *r)
{
    for (size_t group = 0; group * r->codecs < r->count; group++) {
        print_heading(f, r, group);
        fputs("\n|", f);
        for (const struct column *c = columns; c < columns + COLUMNS; c++) {
            if (c->title)
                fprintf(f, " %s%s%s |", c->title, *c->unit ? " " : "", c->unit);
        }
        fputs("\n|", f);
        for (const struct column *c = columns; c < columns + COLUMNS; c++) {
            if (c->title)
                fputs(c->id == CODEC ? "---|" : "---:|", f);
        }
        fputc('\n', f);
        each_line(f, r, group, markdown_line);
    }
}

/* ---- CSV ----------------------------------------------------------------------------------------------------------- */

static void csv_field(FILE *f, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, f);
        return;
    }
    fputc('"', f);
    for (; *text; text++)
        fprintf(f, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', f);
}

static void csv_line(FILE *f, const line *l)
{
    char buffer[CELL];

    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        csv_field(f, cell(l, c, false, buffer));
        fputs(",", f);
    }
    fprintf(f, "%s\r\n", tlc_version_string());
}

static void print_csv(FILE *f, const report *r)
{
    for (const struct column *c = columns; c < columns + COLUMNS; c++)
        fprintf(f, "%s,", c->key);
    fputs("version\r\n", f);
    for (size_t group = 0; group * r->codecs < r->count; group++)
        each_line(f, r, group, csv_line);
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at s; 0 if there is none. Surrogates, overlong forms and what lies beyond U+10FFFF are none. */
static int utf8_length(const unsigned char *s)
{
    static const unsigned least[5] = {0, 0, 0x80, 0x800, 0x10000};
    int len = s[0] < 0x80 ? 1 : s[0] >= 0xf8 ? 0 : s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 0;
    unsigned code = len > 1 ? s[0] & (0x7fu >> len) : s[0];

    for (int i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    return len && code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

static void json_string(FILE *f, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;

    fputc('"', f);
    while (*s) {
        int len = utf8_length(s);
        if (!len)
            fputs("\\ufffd", f); /* a byte of a file name that is not UTF-8 */
        else if (*s < ' ')
            fprintf(f, "\\u%04x", *s);
        else
            fprintf(f, "%s%.*s", *s == '"' || *s == '\\' ? "\\" : "", len, (const char *)s);
        s += len ? len : 1;
    }
    fputc('"', f);
}

static void json_line(FILE *f, const line *l)
{
    char buffer[CELL];

    fputs(l->row == l->report->rows && l->copy ? "\n    {" : ",\n    {", f);
    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        const char *text = cell(l, c, false, buffer);
        fprintf(f, "%s\"%s\": ", c == columns ? "" : ", ", c->key);
        if (!*text)
            fputs("null", f);
        else if (c->kind == TEXT)
            json_string(f, text);
        else
            fputs(text, f);
    }
    fputc('}', f);
}

static void print_json(FILE *f, const report *r)
{
    const source *s = r->source;

    fprintf(f, "{\n  \"program\": \"tlc-bench\",\n  \"version\": \"%s\",\n  \"isa\": \"%s\",\n  \"dtype\": \"%s\",\n"
            "  \"steps\": %zu,\n  \"values\": %zu,\n  \"seed\": %" PRIu64 ",\n  \"checksum\": %s,\n  \"tensors\": [",
            tlc_version_string(), tlc_isa_name(r->rows[0].verified.isa), dtype_name(s->dtype), s->steps, s->values,
            r->seed, r->checksum ? "true" : "false");
    for (size_t i = 0; i < s->count; i++) {
        fputs(i ? ",\n    {\"name\": " : "\n    {\"name\": ", f);
        json_string(f, s->tensors[i].name);
        fputs(", \"file\": ", f);
        if (s->tensors[i].path)
            json_string(f, s->tensors[i].path);
        else
            fputs("null", f);
        fprintf(f, ", \"values\": %zu}", s->tensors[i].n);
    }
    fputs("\n  ],\n  \"rows\": [", f);
    for (size_t group = 0; group * r->codecs < r->count; group++)
        each_line(f, r, group, json_line);
    fputs("\n  ]\n}\n", f);
}

void report_print(FILE *stream, report_format format, const report *r)
{
    static void (*const print[])(FILE *, const report *) = {
        [REPORT_TABLE] = print_table,
        [REPORT_MARKDOWN] = print_markdown,
        [REPORT_CSV] = print_csv,
        [REPORT_JSON] = print_json,
    };
    print[format](stream, r);
}
