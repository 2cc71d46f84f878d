/* SPDX-License-Identifier: MIT
 *
 * Rows and columns in four formats: as an aligned table, as Markdown, as CSV (RFC 4180) or as JSON. A cell without text
 * is a dash, an empty field, or null.
 */
#ifndef BENCH_GRID_H
#define BENCH_GRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { CELL = 128, GRID_COLUMNS = 128 };

typedef enum report_format { REPORT_TABLE, REPORT_MARKDOWN, REPORT_CSV, REPORT_JSON } report_format;

bool grid_parse_format(const char *name, report_format *format, char *why);

typedef enum column_kind { TEXT, COUNT, REAL } column_kind;

typedef struct grid_column {
    const char *key; /* in CSV and JSON, which have all columns */
    column_kind kind;
    const char *title, *unit;
    bool shown; /* in tables and Markdown */
} grid_column;

typedef struct grid {
    const grid_column *columns;
    size_t column_count, rows; /* at most GRID_COLUMNS columns */
    size_t name;               /* the column of names: one that does not fit the line has a line of its own */
    int width;                 /* characters in a line */
    /* The text of a cell, in buffer (CELL bytes) or elsewhere; empty if there is no value. Tables have rounded
     * numbers. */
    const char *(*cell)(const void *report, size_t row, size_t column, bool in_table, char *buffer);
    const void *report;
} grid;

/* Rows first .. end - 1, below a head. */
void grid_table(FILE *f, const grid *g, size_t first, size_t end);
void grid_markdown(FILE *f, const grid *g, size_t first, size_t end);

/* All rows, and in the last column the version of the library. */
void grid_csv(FILE *f, const grid *g);

/* The members of an object, without its braces. */
void grid_json_row(FILE *f, const grid *g, size_t row);
/* NULL is null. */
void grid_json_text(FILE *f, const char *text);
#endif
