/* SPDX-License-Identifier: MIT
 *
 * Makes the rows of the report: verifies and measures codecs and peers, and measures copies and rooflines.
 */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "options.h"

typedef struct row_list {
    report_row *rows;
    size_t count, slots;
    /* for the progress */
    size_t inputs;      /* of which the rows are made, one after the other */
    size_t done, total; /* rows that are measured */
} row_list;

/* Adds rows for all tensors together and, with --per-tensor, for each tensor. For each number of threads these are
 * copies and rooflines (but not for VIEW_DENSITY), codecs, and peers. sources: count runs (runs.h), or one source
 * that is not a run. A codec is measured on the run that runs_choose gives it; all else is measured on the first. */
bool rows_add(row_list *list, const options *o, const source *sources, size_t count, const cores *c, char *why);

/* An empty row; its times are NaN. NULL: no memory. */
report_row *rows_append(row_list *list);
void rows_free(row_list *list);
#endif
