/* SPDX-License-Identifier: MIT */
#include "sim_columns.h"
#include "rate.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Characters in a line of a table, and with --wide. */
enum { LINE_WIDTH = 100, WIDE_LINE_WIDTH = 240 };

typedef enum column_id {
#define TEXT_COLUMN(id, ...) id,
#define COUNT_COLUMN(id, ...) id,
#define REAL_COLUMN(id, ...) id,
#include "sim_columns.def"
    COLUMNS
} column_id;

typedef enum column_place { HIDDEN, WIDE, ALWAYS } column_place;

static const struct {
    const char *key;
    column_kind kind;
    column_place place;
    const char *title, *unit;
} columns[COLUMNS] = {
#define TEXT_COLUMN(id, key, place, title, value) [id] = {key, TEXT, place, title, ""},
#define COUNT_COLUMN(id, key, place, title, value) [id] = {key, COUNT, place, title, ""},
#define REAL_COLUMN(id, key, place, title, unit, scale, format, value) [id] = {key, REAL, place, title, unit},
#include "sim_columns.def"
};

/* ---- cells ------------------------------------------------------------------------------------------------------- */

/* In tables, the speed of links above which floats are faster. */
static const char *wins_of(const sim_row *row, bool in_table, char *buffer)
{
    const model_output *out = &row->out;
    char above[RATE_TEXT], below[RATE_TEXT];

    if (model_never_wins(out))
        return "never";
    if (!in_table)
        return out->above > 0 ? isinf(out->below) ? "above" : "between" : isinf(out->below) ? "always" : "below";
    if (isinf(out->below) && out->above <= 0)
        return "none";
    snprintf(buffer, CELL, "%s%s%s", out->above > 0 ? rate_text(out->above * row->in.rank.up, above) : "",
             out->above > 0 ? " to " : "", isinf(out->below) ? "any" : rate_text(out->below * row->in.rank.up, below));
    return buffer;
}

static const char *codec_of(const sim_row *row, bool in_table, char *buffer)
{
    if (!in_table || (row->own_run && !row->beside))
        return row->codec;
    snprintf(buffer, CELL, "%.*s %c", CELL - 3, row->codec, row->beside ? '~' : '*');
    return buffer;
}

static const char *run_of(const sim_row *row)
{
    return source_is_drawn(row->from) ? row->from->tensors[0].name : row->from->run ? row->from->run : "";
}

/* Milliseconds of a call, by ranks or servers. */
static double call_of(const sim_row *row, const char *call)
{
    double seconds = NAN;

    for (size_t i = 0; i < row->kind.kind->phase_count; i++) {
        const model_phase *p = &row->in.phase[i];
        if (!strcmp(row->kind.kind->phases[i].call, call))
            seconds = fmax(p->rank.codec, p->server.codec);
    }
    return 1e3 * seconds;
}

/* 0 stands for no servers, or for owners if all ranks are owners, or none. */
static const char *print_count(size_t count, bool also_0, char *buffer)
{
    if (count || also_0)
        snprintf(buffer, CELL, "%zu", count);
    return buffer;
}

static const char *print_real(double real, double scale, const char *format, bool in_table, char *buffer)
{
    const double scaled = real * scale;

    if (isfinite(real))
        snprintf(buffer, CELL,
                 !in_table         ? "%.17g"
                 : scaled >= 10000 ? "%.0f"
                 : scaled >= 1000  ? "%.1f"
                                   : format,
                 in_table ? scaled : real);
    return buffer;
}

static const char *cell_of(const void *list, size_t at, size_t column, bool in_table, char *buffer)
{
    const sim_row *row = &((const sim_rows *)list)->rows[at];
    const model_input *in = &row->in;
    const model_output *out = &row->out;
    const drive_result *m = &row->measured;
    const bool wins = !model_never_wins(out);

    buffer[0] = '\0';
    switch ((column_id)column) {
#define TEXT_COLUMN(id, key, place, title, value)                                                                      \
    case id: return value;
#define COUNT_COLUMN(id, key, place, title, value)                                                                     \
    case id: return print_count(value, (id) == REPLAYED, buffer);
#define REAL_COLUMN(id, key, place, title, unit, scale, format, value)                                                 \
    case id: return print_real(value, scale, format, in_table, buffer);
#include "sim_columns.def"
    default: return buffer;
    }
}

/* ---- the grid ---------------------------------------------------------------------------------------------------- */

/* Tables do without columns that have nothing to tell. */
static bool is_telling(const sim_rows *list, column_id id)
{
    const bool of_devices = id == DEVICE_MS || id == DIRECT_MS;
    bool tells = id != REPLAYED && id != SERVER_SENT && id != SERVER_RECEIVED && !of_devices;

    for (size_t i = 0; !tells && i < list->count; i++) {
        const sim_row *row = &list->rows[i];
        tells = id == REPLAYED ? row->measured.replayed : of_devices ? row->device != NULL : row->in.servers > 0;
    }
    return tells;
}

size_t sim_column_count(void)
{
    return COLUMNS;
}

grid sim_grid(const sim_rows *list, bool wide, grid_column *all)
{
    for (size_t i = 0; i < COLUMNS; i++) {
        bool shown = columns[i].place == ALWAYS || (columns[i].place == WIDE && wide);
        all[i] = (grid_column){columns[i].key, columns[i].kind, columns[i].title, columns[i].unit,
                               shown && is_telling(list, (column_id)i)};
    }
    return (grid){.columns = all,
                  .column_count = COLUMNS,
                  .rows = list->count,
                  .name = CODEC,
                  .width = wide ? WIDE_LINE_WIDTH : LINE_WIDTH,
                  .cell = cell_of,
                  .report = list};
}
