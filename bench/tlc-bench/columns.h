/* SPDX-License-Identifier: MIT
 *
 * The columns of the report, one list for all formats. CSV and JSON have all columns; tables have those of their view.
 */
#ifndef BENCH_COLUMNS_H
#define BENCH_COLUMNS_H

#include "../lib/grid.h"
#include "report_row.h"

typedef enum column_id {
#define TEXT_COLUMN(id, ...) id,
#define COUNT_COLUMN(id, ...) id,
#define REAL_COLUMN(id, ...) id,
#include "columns.def"
    COLUMNS
} column_id;

typedef struct column {
    const char *key;
    column_kind kind;
    unsigned views; /* whose tables have it, */
    unsigned wide;  /* and whose have it with --wide */
    const char *title, *unit;
} column;

extern const column columns[COLUMNS];

/* Whether the tables of this report have the column. */
bool column_shown(const report *r, column_id id);

/* The text of the cell, in buffer (CELL bytes) or elsewhere; empty if there is no value. Tables have rounded
 * numbers. */
const char *column_cell(const report *r, const report_row *row, column_id which, bool in_table, char *buffer);
#endif
