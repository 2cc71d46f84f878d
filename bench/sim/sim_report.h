/* SPDX-License-Identifier: MIT
 *
 * Prints the report of tlc-sim: the rows, and which of them is the fastest for each model, number of ranks and link.
 */
#ifndef SIM_REPORT_H
#define SIM_REPORT_H

#include "sim_rows.h"

typedef struct sim_report {
    const sim_options *o;
    const sim_rows *list;
    const sim_input *in;
} sim_report;

/* false: no memory. */
bool sim_report_print(FILE *f, const sim_report *r);
#endif
