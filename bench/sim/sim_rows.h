/* SPDX-License-Identifier: MIT
 *
 * The rows of the report. Machines are measured once for each model, kind, number of ranks and codec; each link then
 * has a row with what the model of links predicts.
 */
#ifndef SIM_ROWS_H
#define SIM_ROWS_H

#include "drive.h"
#include "sim_options.h"

typedef struct sim_row {
    const shape_list *model;
    sim_kind kind;
    const char *codec;
    const source *run; /* that it was measured on, if there are runs; else NULL */
    bool own_run;      /* the run was trained with the s of the codec */
    drive_result measured;
    model_input in;
    model_output out;
} sim_row;

typedef struct sim_rows {
    sim_row *rows;
    size_t count, slots;
    size_t total; /* exchanges that are run, for the progress */
} sim_rows;

typedef struct sim_input {
    const shape_list *models; /* o->shape_count of them */
    source *sources;          /* runs (runs.h), or one source that is not a run; some residuals are made here */
    size_t count;             /* of sources */
    size_t cache;             /* bytes of the last-level cache; 0: not known */
    size_t memory;            /* bytes that machines may take */
} sim_input;

/* Rows that differ in the codec or the kind only are neighbours. */
bool sim_rows_add(sim_rows *list, const sim_options *o, const sim_input *in, char *why);
void sim_rows_free(sim_rows *list);

/* Whether two rows answer the same question: the model, the ranks and the link are the same. */
bool sim_rows_compare(const sim_row *a, const sim_row *b);
#endif
