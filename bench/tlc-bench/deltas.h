/* SPDX-License-Identifier: MIT
 *
 * The rows of --delta: weights that have moved, sent in several ways. Each way is verified both ways before it is
 * measured.
 */
#ifndef BENCH_DELTAS_H
#define BENCH_DELTAS_H

#include "rows.h"

/* sources: the base, then count sources of next weights, which match it. Adds a row for each of these, number of
 * threads and way. */
bool deltas_rows(row_list *list, const options *o, const source *sources, size_t count, const cores *c, char *why);
#endif
