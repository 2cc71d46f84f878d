/* SPDX-License-Identifier: MIT
 *
 * The formats. A new table starts where the tensor changes. A cell without text is a dash, an empty field, or null.
 */
#include "report.h"
#include "columns.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Characters in a line of a table, and with --wide. */
enum { LINE_WIDTH = 100, WIDE_LINE_WIDTH = 180 };

static bool starts_table(const report *r, size_t i)
{
    return !i || r->rows[i].tensor != r->rows[i - 1].tensor;
}

static const report_row *first_codec(const report *r)
{
    const report_row *row = r->rows;

    while (!report_row_has_codec(row))
        row++;
    return row;
}

/* ---- headings --------------------------------------------------------------------------------------------------- */

static void print_bytes(FILE *f, const char *what, size_t bytes)
{
    if (bytes)
        fprintf(f, "%s %.4g MiB", what, (double)bytes / (1 << 20));
    else
        fprintf(f, "%s unknown", what);
}

/* What the residuals were before the first step, if there are residuals. */
static void print_start(FILE *f, const report *r)
{
    const char *why_zero = r->cold ? "--cold" : "no .residual.npy file";
    start_kind start = START_NO_RESIDUAL;

    for (size_t i = 0; i < r->count; i++) {
        if (r->rows[i].verified.start > start)
            start = r->rows[i].verified.start;
    }
    if (start == START_RECORDED)
        fputs("; residual at the start: as recorded in a long run", f);
    else if (start == START_MIXED)
        fputs("; residual at the start: as recorded, zero where there is no file", f);
    else if (start == START_ZERO && r->sources[0].tensors[0].path)
        fprintf(f, "; residual at the start: zero, a cold start (%s)", why_zero);
}

static void print_runs(FILE *f, const report *r)
{
    bool marks = false;

    if (!r->sources[0].run)
        return;
    for (size_t i = 0; i < r->source_count; i++)
        fprintf(f, "%s%s", i ? ", " : "runs: ", r->sources[i].run);
    fputs("; a codec with the s of a run is measured on it\n", f);
    for (size_t i = 0; i < r->count; i++)
        marks = marks || report_row_is_marked(&r->rows[i]);
    if (marks)
        fprintf(f, "*: no run has its s; measured on %s\n", r->sources[0].run);
}

static void print_repeats(FILE *f, const report *r)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->rows[i].repeats) {
            fputs("delay: where the steps do not fill the last frame, they are repeated from the first one on\n", f);
            return;
        }
    }
}

static void print_heading(FILE *f, const report *r, size_t i)
{
    const report_row *row = &r->rows[i];
    const source *s = r->sources;

    if (i) {
        fprintf(f, "\n%s: %zu values\n", row->tensor, row->values);
        return;
    }
    fprintf(f, "libthreelc %s, ISA %s, %s; ", tlc_version_string(), tlc_isa_name(first_codec(r)->verified.isa),
            dtype_name(r->dtype));
    if (r->view == VIEW_EXCHANGE)
        fprintf(f, "gradients made of %s\n", s->run ? "runs" : s->tensors[0].path ? "files" : s->tensors[0].name);
    else if (report_has_one_shape(r))
        fprintf(f, "%zu tensor%s, %zu values a step, %zu step%s\n", s->count, s->count == 1 ? "" : "s", row->values,
                row->steps, row->steps == 1 ? "" : "s");
    else
        fprintf(f, "%s\n", s->tensors[0].name);
    fputs(r->view == VIEW_AGGREGATE  ? "every aggregate verified"
          : r->view == VIEW_FRAMES   ? "every sum verified"
          : r->view == VIEW_EXCHANGE ? "every message and output verified"
                                     : "every round trip verified",
          f);
    print_start(f, r);
    fputc('\n', f);
    print_runs(f, r);
    print_repeats(f, r);
    if (r->view == VIEW_CODECS)
        fprintf(f, "Look at ratio (times smaller); compare GB/s with memcpy.%s%s\n",
                column_shown(r, COMPRESS_ROOF) ? " roofline x: 1 is the limit." : "", r->wide ? "" : " More: --wide");
    if (r->view == VIEW_AGGREGATE)
        fputs("ATE/s: aggregated tensor elements (inputs x values) a second; frames: GB/s of frames read\n", f);
    if (r->view == VIEW_FRAMES)
        fputs("add: a call for each frame; add many, from zero: one call; GB/s of float32 of all frames\n", f);
    if (r->view == VIEW_EXCHANGE)
        fputs("bits per value: frames of whole tensors of one rank; mean, busiest: bytes that machines send / bytes\n"
              "of these frames; framing: what messages have more than their frames; step: calls of one rank, or of\n"
              "the server; codecs: codec calls and checks for finite values alone; other: step / codecs - 1\n",
              f);
    if (r->view & (VIEW_ROOFLINE | VIEW_DENSITY | VIEW_AGGREGATE | VIEW_FRAMES)) {
        print_bytes(f, "last-level cache", r->machine.cache);
        print_bytes(f, ", memcpy streams from", r->machine.streaming);
        fputc('\n', f);
    }
}

/* ---- spread over the densities ---------------------------------------------------------------------------------- */

/* Speeds divided by that of memcpy in the same rounds, because the machine may change between two densities. */
typedef struct spread {
    double slowest[TIMES], fastest[TIMES], add_share;
} spread;

static bool same_series(const report_row *a, const report_row *b)
{
    return a->values == b->values && a->threads == b->threads && a->assume_finite == b->assume_finite &&
           a->delay == b->delay && a->name == b->name;
}

/* Over the rows that differ from row i in density only. false: row i is not the first of them. */
static bool find_spread(const report *r, size_t i, spread *s)
{
    *s = (spread){.add_share = INFINITY};
    for (size_t k = 0; k < r->count; k++) {
        const timing *t = r->rows[k].time;
        if (!same_series(&r->rows[i], &r->rows[k]))
            continue;
        if (k < i)
            return false;
        for (int time = TIME_COMPRESS; time <= TIME_DECOMPRESS; time++) {
            double relative = t[time].median / t[TIME_MEMCPY].median;
            s->slowest[time] = fmax(s->slowest[time], relative);
            s->fastest[time] = k == i ? relative : fmin(s->fastest[time], relative);
        }
        s->add_share = fmin(s->add_share, t[TIME_ADD_ROOF].median / t[TIME_ADD].median);
    }
    return true;
}

static void print_spreads(FILE *f, const report *r)
{
    char name[CELL], size[CELL];
    spread s;

    for (size_t i = 0; r->view == VIEW_DENSITY && i < r->count; i++) {
        if (!find_spread(r, i, &s))
            continue;
        fprintf(f,
                "\n%s, %s values, %zu thread%s: slowest / fastest density (speeds / memcpy):\ncompress %.3f, "
                "decompress %.3f; lowest share of the add roofline: %.3f\n",
                column_cell(r, &r->rows[i], CODEC, true, name), column_cell(r, &r->rows[i], VALUES, true, size),
                r->rows[i].threads, r->rows[i].threads == 1 ? "" : "s",
                s.fastest[TIME_COMPRESS] / s.slowest[TIME_COMPRESS],
                s.fastest[TIME_DECOMPRESS] / s.slowest[TIME_DECOMPRESS], s.add_share);
    }
}

/* ---- table ------------------------------------------------------------------------------------------------------ */

/* The text of these columns starts at the left. */
static bool is_left(column_id id)
{
    return columns[id].kind == TEXT;
}

static int column_width(const report *r, column_id id)
{
    int width = (int)strlen(columns[id].title);
    char buffer[CELL];

    for (size_t i = 0; is_left(id) && i < r->count; i++) {
        int len = (int)strlen(column_cell(r, &r->rows[i], id, true, buffer));
        width = len > width ? len : width;
    }
    return width < 6 ? 6 : width;
}

/* As wide as the longest name that fits. */
static int codec_width(const report *r)
{
    int width = (int)strlen(columns[CODEC].title), room = r->wide ? WIDE_LINE_WIDTH : LINE_WIDTH;
    char buffer[CELL];

    for (column_id id = 0; id < COLUMNS; id++) {
        if (column_shown(r, id) && id != CODEC)
            room -= 1 + column_width(r, id);
    }
    for (size_t i = 0; i < r->count; i++) {
        int len = (int)strlen(column_cell(r, &r->rows[i], CODEC, true, buffer));
        width = len > width && len <= room ? len : width;
    }
    return width;
}

static void table_head(FILE *f, const report *r, int width)
{
    for (int second = 0; second < 2; second++) {
        fprintf(f, "%-*s", width, second ? "" : columns[CODEC].title);
        for (column_id id = 0; id < COLUMNS; id++) {
            if (column_shown(r, id) && id != CODEC)
                fprintf(f, " %*s", is_left(id) ? -column_width(r, id) : column_width(r, id),
                        second ? columns[id].unit : columns[id].title);
        }
        fputc('\n', f);
    }
}

/* A name that is too long has a line of its own. */
static void table_line(FILE *f, const report *r, const report_row *row, int width)
{
    char buffer[CELL];

    for (column_id id = 0; id < COLUMNS; id++) {
        if (!column_shown(r, id))
            continue;
        const char *text = column_cell(r, row, id, true, buffer);
        if (id == CODEC && strlen(text) > (size_t)width)
            fprintf(f, "%s\n%*s", text, width, "");
        else if (id == CODEC)
            fprintf(f, "%-*s", width, text);
        else
            fprintf(f, " %*s", is_left(id) ? -column_width(r, id) : column_width(r, id), *text ? text : "-");
    }
    fputc('\n', f);
}

static void print_table(FILE *f, const report *r)
{
    int width = codec_width(r);

    for (size_t i = 0; i < r->count; i++) {
        if (starts_table(r, i)) {
            print_heading(f, r, i);
            table_head(f, r, width);
        }
        table_line(f, r, &r->rows[i], width);
    }
    print_spreads(f, r);
}

/* ---- Markdown --------------------------------------------------------------------------------------------------- */

static void markdown_head(FILE *f, const report *r)
{
    fputs("\n|", f);
    for (column_id id = 0; id < COLUMNS; id++) {
        if (column_shown(r, id))
            fprintf(f, " %s%s%s |", columns[id].title, *columns[id].unit ? " " : "", columns[id].unit);
    }
    fputs("\n|", f);
    for (column_id id = 0; id < COLUMNS; id++) {
        if (column_shown(r, id))
            fputs(is_left(id) ? "---|" : "---:|", f);
    }
    fputc('\n', f);
}

static void print_markdown(FILE *f, const report *r)
{
    char buffer[CELL];

    for (size_t i = 0; i < r->count; i++) {
        if (starts_table(r, i)) {
            print_heading(f, r, i);
            markdown_head(f, r);
        }
        fputc('|', f);
        for (column_id id = 0; id < COLUMNS; id++) {
            if (!column_shown(r, id))
                continue;
            const char *text = column_cell(r, &r->rows[i], id, true, buffer);
            fprintf(f, id == CODEC ? " `%s` |" : " %s |", *text ? text : "-");
        }
        fputc('\n', f);
    }
    print_spreads(f, r);
}

/* ---- CSV -------------------------------------------------------------------------------------------------------- */

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

static void print_csv(FILE *f, const report *r)
{
    char buffer[CELL];

    for (column_id id = 0; id < COLUMNS; id++)
        fprintf(f, "%s,", columns[id].key);
    fputs("version\r\n", f);
    for (size_t i = 0; i < r->count; i++) {
        for (column_id id = 0; id < COLUMNS; id++) {
            csv_field(f, column_cell(r, &r->rows[i], id, false, buffer));
            fputs(",", f);
        }
        fprintf(f, "%s\r\n", tlc_version_string());
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

/* Bytes of the UTF-8 character at s. 0: it is none; surrogates, overlong forms and codes above U+10FFFF are none. */
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

/* NULL is null. */
static void json_text(FILE *f, const char *text)
{
    if (text)
        json_string(f, text);
    else
        fputs("null", f);
}

/* Bits a value in each step; null for rows without frames. */
static void json_bits(FILE *f, const report_row *row)
{
    const uint64_t *bytes = row->verified.step_bytes;

    fputs(", \"bits_by_step\": ", f);
    if (!bytes || !row->values) {
        fputs("null", f);
        return;
    }
    for (size_t step = 0; step < row->steps; step++)
        fprintf(f, "%s%.6g", step ? ", " : "[", 8 * (double)bytes[step] / (double)row->values);
    fputc(']', f);
}

static void json_row(FILE *f, const report *r, const report_row *row)
{
    char buffer[CELL];

    for (column_id id = 0; id < COLUMNS; id++) {
        const char *text = column_cell(r, row, id, false, buffer);
        fprintf(f, "%s\"%s\": ", id ? ", " : "{", columns[id].key);
        if (!*text)
            fputs("null", f);
        else if (columns[id].kind == TEXT)
            json_string(f, text);
        else
            fputs(text, f);
    }
    json_bits(f, row);
    fputc('}', f);
}

static void json_tensors(FILE *f, const report *r)
{
    const char *separator = "\n    ";

    for (size_t i = 0; i < r->source_count; i++) {
        for (const tensor *t = r->sources[i].tensors; t < r->sources[i].tensors + r->sources[i].count; t++) {
            fprintf(f, "%s{\"name\": ", separator);
            json_string(f, t->name);
            fputs(", \"file\": ", f);
            json_text(f, t->path);
            fputs(", \"run\": ", f);
            json_text(f, r->sources[i].run);
            fprintf(f, ", \"values\": %zu, \"steps\": %zu}", t->n, t->steps);
            separator = ",\n    ";
        }
    }
}

/* 0 stands for unknown. */
static void json_known(FILE *f, const char *key, size_t value)
{
    if (value)
        fprintf(f, "  \"%s\": %zu,\n", key, value);
    else
        fprintf(f, "  \"%s\": null,\n", key);
}

static void print_json(FILE *f, const report *r)
{
    const source *only = report_has_one_shape(r) ? r->sources : NULL;

    fprintf(f, "{\n  \"program\": \"tlc-bench\",\n  \"version\": \"%s\",\n  \"isa\": \"%s\",\n  \"dtype\": \"%s\",\n",
            tlc_version_string(), tlc_isa_name(first_codec(r)->verified.isa), dtype_name(r->dtype));
    json_known(f, "steps", only ? only->steps : 0);
    if (only) /* here 0 is a number of values */
        fprintf(f, "  \"values\": %zu,\n", only->values);
    else
        fputs("  \"values\": null,\n", f);
    json_known(f, "cache_bytes", r->machine.cache);
    json_known(f, "streaming_bytes", r->machine.streaming);
    fprintf(f, "  \"seed\": %" PRIu64 ",\n  \"checksum\": %s,\n  \"tensors\": [", r->seed,
            r->checksum ? "true" : "false");
    json_tensors(f, r);
    fputs("\n  ],\n  \"rows\": [", f);
    for (size_t i = 0; i < r->count; i++) {
        fputs(i ? ",\n    " : "\n    ", f);
        json_row(f, r, &r->rows[i]);
    }
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
