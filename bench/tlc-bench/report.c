/* SPDX-License-Identifier: MIT
 *
 * A new table starts where the tensor changes.
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

    if (!r->sources[0].run || r->view == VIEW_DELTA)
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
    if (r->view == VIEW_DELTA)
        fprintf(f, "base %s, %zu weights in %zu tensor%s\n", s->run ? s->run : s->tensors[0].name, s->values, s->count,
                s->count == 1 ? "" : "s");
    else if (r->view == VIEW_EXCHANGE)
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
    if (r->view == VIEW_DELTA)
        fputs("GB/s of weights. memcpy x: of compress to memcpy of base and next, of apply to memcpy of the weights.\n"
              "roofline x: of compress to reading both, of apply to reading the weights (if there are digests) and\n"
              "changing the cache lines with differences. entropy x: that of positions and differences.\n",
              f);
    if (r->view & (VIEW_DELTA | VIEW_ROOFLINE | VIEW_DENSITY | VIEW_AGGREGATE | VIEW_FRAMES)) {
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

/* ---- the rows as a grid ------------------------------------------------------------------------------------------ */

static const char *cell_of(const void *r_, size_t row, size_t id, bool in_table, char *buffer)
{
    const report *r = r_;

    return column_cell(r, &r->rows[row], (column_id)id, in_table, buffer);
}

/* all: COLUMNS of them. */
static grid grid_of(const report *r, grid_column *all)
{
    for (column_id id = 0; id < COLUMNS; id++) {
        const column *c = &columns[id];
        all[id] = (grid_column){c->key, c->kind, c->title, c->unit, column_shown(r, id)};
    }
    return (grid){.columns = all,
                  .column_count = COLUMNS,
                  .rows = r->count,
                  .name = CODEC,
                  .width = r->wide ? WIDE_LINE_WIDTH : LINE_WIDTH,
                  .cell = cell_of,
                  .report = r};
}

static void print_tables(FILE *f, const report *r, const grid *g, void (*print)(FILE *, const grid *, size_t, size_t))
{
    for (size_t first = 0, end; first < r->count; first = end) {
        for (end = first + 1; end < r->count && !starts_table(r, end);)
            end++;
        print_heading(f, r, first);
        print(f, g, first, end);
    }
    print_spreads(f, r);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

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

static void json_tensors(FILE *f, const report *r)
{
    const char *separator = "\n    ";

    for (size_t i = 0; i < r->source_count; i++) {
        for (const tensor *t = r->sources[i].tensors; t < r->sources[i].tensors + r->sources[i].count; t++) {
            fprintf(f, "%s{\"name\": ", separator);
            grid_json_text(f, t->name);
            fputs(", \"file\": ", f);
            grid_json_text(f, t->path);
            fputs(", \"run\": ", f);
            grid_json_text(f, r->sources[i].run);
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

static void print_json(FILE *f, const report *r, const grid *g)
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
        fputs(i ? ",\n    {" : "\n    {", f);
        grid_json_row(f, g, i);
        json_bits(f, &r->rows[i]);
        fputc('}', f);
    }
    fputs("\n  ]\n}\n", f);
}

void report_print(FILE *stream, report_format format, const report *r)
{
    grid_column all[COLUMNS];
    const grid g = grid_of(r, all);

    switch (format) {
    case REPORT_MARKDOWN: print_tables(stream, r, &g, grid_markdown); break;
    case REPORT_CSV: grid_csv(stream, &g); break;
    case REPORT_JSON: print_json(stream, r, &g); break;
    default: print_tables(stream, r, &g, grid_table); break;
    }
}
