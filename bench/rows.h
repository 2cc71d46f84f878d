/* SPDX-License-Identifier: MIT
 *
 * Makes the rows of the report: what is verified and measured, and what beside it.
 */
#ifndef BENCH_ROWS_H
#define BENCH_ROWS_H

#include "options.h"

typedef struct row_list {
    report_row *rows;
    size_t count, slots;
} row_list;

/* Adds the rows of all tensors of a source and, with --per-tensor, of each alone; for each number of threads copies and
 * rooflines (but for VIEW_DENSITY), codecs, and peers. */
bool rows_add(row_list *list, const options *o, const source *s, const cores *c, char *why);
/* On stderr, if that is a terminal: what is done for the row of this number. of: what the row is made of. */
void rows_progress(const options *o, size_t number, const char *name, const char *of, const char *what);
void rows_progress_end(const options *o);

/* A row with nothing in it but times of NaN. NULL: no memory. */
report_row *rows_append(row_list *list);
void rows_free(row_list *list);
#endif
