/* SPDX-License-Identifier: MIT */
#include "mpi_report.h"
#include "../sim/rate.h"
#include <inttypes.h>
#include <math.h>

enum { LINE_WIDTH = 100 };

typedef enum column_id {
#define TEXT_COLUMN(id, ...) id,
#define COUNT_COLUMN(id, ...) id,
#define REAL_COLUMN(id, ...) id,
#include "mpi_columns.def"
    COLUMNS
} column_id;

static const struct {
    const char *key;
    column_kind kind;
    const char *title, *unit; /* NULL: tables do without it */
} columns[COLUMNS] = {
#define TEXT_COLUMN(id, key, title, value) [id] = {key, TEXT, title, ""},
#define COUNT_COLUMN(id, key, value) [id] = {key, COUNT, NULL, NULL},
#define REAL_COLUMN(id, key, title, unit, scale, format, value) [id] = {key, REAL, title, unit},
#include "mpi_columns.def"
};

/* ---- cells ------------------------------------------------------------------------------------------------------- */

static const char *codec_of(const mpi_row *row, bool in_table, char *buffer)
{
    if (!row->way.codec)
        return "";
    snprintf(buffer, CELL, "%.*s%s", CELL - 3, row->way.codec, in_table && !row->own_run ? " *" : "");
    return buffer;
}

static const char *handles_of(const mpi_row *row, char *buffer)
{
    if (!row->way.codec)
        return "";
    if (row->way.handles == HANDLE_PER_TENSOR)
        return "layers";
    snprintf(buffer, CELL, "%zu", row->way.handles);
    return buffer;
}

static const char *print_count(size_t count, char *buffer)
{
    snprintf(buffer, CELL, "%zu", count);
    return buffer;
}

static const char *print_real(double real, double scale, const char *format, bool in_table, char *buffer)
{
    if (isfinite(real))
        snprintf(buffer, CELL, in_table ? format : "%.17g", in_table ? real * scale : real);
    return buffer;
}

static const char *cell_of(const void *report, size_t at, size_t column, bool in_table, char *buffer)
{
    const mpi_rows *list = report;
    const mpi_row *row = &list->rows[at];
    const way_options *way = &row->way;
    const race_result *m = &row->measured;

    buffer[0] = '\0';
    switch ((column_id)column) {
#define TEXT_COLUMN(id, key, title, value)                                                                             \
    case id: return value;
#define COUNT_COLUMN(id, key, value)                                                                                   \
    case id: return print_count(value, buffer);
#define REAL_COLUMN(id, key, title, unit, scale, format, value)                                                        \
    case id: return print_real(value, scale, format, in_table, buffer);
#include "mpi_columns.def"
    default: return buffer;
    }
}

static grid make_grid(const mpi_rows *list, grid_column *all)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        bool telling = (i != PREDICTED && i != PREDICTION) || isfinite(list->rows[0].predicted);
        all[i] = (grid_column){.key = columns[i].key,
                               .kind = columns[i].kind,
                               .title = columns[i].title ? columns[i].title : "",
                               .unit = columns[i].unit ? columns[i].unit : "",
                               .shown = columns[i].title && telling};
    }
    return (grid){.columns = all,
                  .column_count = COLUMNS,
                  .rows = list->count,
                  .name = CODEC,
                  .width = LINE_WIDTH,
                  .cell = cell_of,
                  .report = list};
}

/* ---- the report -------------------------------------------------------------------------------------------------- */

static void print_heading(FILE *f, const mpi_rows *list)
{
    const mpi_options *o = list->o;
    const shape_list *model = list->model;
    const source *s = list->rows[0].way.from;
    double cap = mpi_rows_cap(model);
    bool marked = false;
    char link[RATE_TEXT];

    fprintf(f, "libthreelc %s, MPI, %zu ranks; %s: %zu tensors, %zu values; compute %.4g ms", tlc_version_string(),
            list->ranks, model->model, model->count, model->values, 1e3 * o->compute);
    if (o->link.up > 0)
        fprintf(f, "; link %s, latency %.4g ms", rate_link_text(&o->link, link), 1e3 * o->latency);
    fputs("\nsent: by the busiest worker; codec: calls on the rank with most of them; wire: step - compute - codec;\n"
          "step: the median of the slowest rank; gain: push-pull / row, both without compute",
          f);
    if (isfinite(list->rows[0].predicted))
        fprintf(f, "; predicted: as tlc-sim,\nwith %.3g ranks on a core", list->share);
    fputc('\n', f);
    for (size_t i = 0; i < list->count; i++)
        marked = marked || !list->rows[i].own_run;
    if (marked)
        fprintf(f, "*: no run has its s; measured on %s\n", s->run);
    if (isfinite(cap))
        fprintf(f, "cap: small tensors are sent raw, so the gain in bytes is at most %.4g\n", cap);
    fputs("verified: all ranks have the same bits; means of floats and raw frames are right to rounding\n\n", f);
}

static void print_json(FILE *f, const mpi_rows *list, const grid *g)
{
    const mpi_options *o = list->o;

    fprintf(f, "{\n  \"program\": \"tlc-mpi-bench\",\n  \"version\": \"%s\",\n  \"gradients\": ", tlc_version_string());
    grid_json_text(f, o->traces ? o->traces : list->rows[0].way.from->tensors[0].name);
    fprintf(f, ",\n  \"seed\": %" PRIu64 ",\n  \"warmup\": %zu,\n  \"ranks_on_core\": %.17g,\n  \"rows\": [",
            o->source.seed, o->warmup, list->share);
    for (size_t i = 0; i < list->count; i++) {
        fputs(i ? ",\n    {" : "\n    {", f);
        grid_json_row(f, g, i);
        fputc('}', f);
    }
    fputs("\n  ]\n}\n", f);
}

void mpi_report_print(FILE *f, const mpi_rows *list)
{
    grid_column all[COLUMNS];
    const grid g = make_grid(list, all);
    bool markdown = list->o->format == REPORT_MARKDOWN;

    if (list->o->format == REPORT_CSV) {
        grid_csv(f, &g);
    } else if (list->o->format == REPORT_JSON) {
        print_json(f, list, &g);
    } else {
        print_heading(f, list);
        (markdown ? grid_markdown : grid_table)(f, &g, 0, list->count);
    }
}
