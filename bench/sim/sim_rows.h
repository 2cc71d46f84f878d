/* SPDX-License-Identifier: MIT
 *
 * The rows of the report. Machines are measured once for each model, kind, number of ranks and codec; each link then
 * has a row with what the model of links predicts.
 */
#ifndef SIM_ROWS_H
#define SIM_ROWS_H

#include "drive.h"
#include "sim_options.h"
#include "sim_sources.h"

typedef struct sim_row {
    const shape_list *model;
    sim_kind kind;
    const char *codec;
    const source *from; /* that gradients are made of */
    bool own_run;       /* that is no run, or a run that was trained with the s of the codec */
    bool beside;        /* the fastest row once more, with drawn values */
    size_t local_steps; /* in a round; 0: an exchange in every step */
    const char *device; /* of --device; NULL: gradients are on the host */
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
    const shape_list *models;  /* o->shape_count of them */
    sim_use use[MAX_MODELS];   /* of each model */
    sim_sources set[SIM_USES]; /* those that models use; residuals of drawn ones are made here */
    sim_sources drawn;         /* to stand beside recorded ones; not loaded if there are none */
    size_t cache;              /* bytes of the last-level cache; 0: not known */
    size_t memory;             /* bytes that machines may take */
} sim_input;

/* Rows that differ in the codec or the kind only are neighbours. After them comes the fastest of them once more with
 * drawn values, if theirs are recorded. */
bool sim_rows_add(sim_rows *list, const sim_options *o, const sim_input *in, char *why);
void sim_rows_free(sim_rows *list);

/* The row with the shortest step of those that answer the same question as row `first`: the model, the ranks and the
 * link are the same. *end: the row after them. */
const sim_row *sim_rows_best(const sim_rows *list, size_t first, size_t *end);
#endif
