/* SPDX-License-Identifier: MIT
 *
 * Rows of --exchange: what machines send to each other in a step, and how long the exchange takes beside its codecs.
 */
#ifndef BENCH_EXCHANGE_H
#define BENCH_EXCHANGE_H

#include "../lib/shapes.h"
#include "rows.h"

typedef struct exchange_input {
    const shape_list *models; /* o->shape_count of them */
    const source *sources;    /* runs (runs.h), or one source that is not a run */
    size_t count;             /* of sources */
    size_t cache;             /* bytes of the last-level cache; 0: not known */
} exchange_input;

/* For each model and codec, a row for each algorithm and number of ranks, and others for fewer owners (--owners). A
 * codec is measured on gradients of the run that runs_choose gives it. */
bool exchange_rows(row_list *list, const options *o, const exchange_input *in, char *why);
#endif
