/* SPDX-License-Identifier: MIT
 *
 * Runs a layout step by step. Counts what all machines send. Measures the calls of rank 0 and of the first server, on
 * cold caches and in the time of the thread (cold.h).
 *
 * If the machines do not fit in memory, the step is replayed: all but rank 0 and the servers are made one after the
 * other, for one call each, and their messages are kept. In each step their residuals are those before the first one.
 */
#ifndef SIM_DRIVE_H
#define SIM_DRIVE_H

#include "../lib/source.h"
#include "layout.h"
#include "link_model.h"

typedef struct drive_options {
    layout_options layout;   /* replay is set by drive_run */
    const source *from;      /* gradients are made of it */
    size_t warmup, rounds;   /* steps before anything is counted, and those that are */
    size_t memory;           /* bytes that machines may take */
    const char *memory_text; /* of --memory; NULL: memory is the default */
    const char *advice;      /* where it is too little by default, as "--memory allows more" */
    size_t cache;            /* bytes of the last-level cache; 0: not known */
} drive_options;

/* Of a class of machines, in a mean step. */
typedef struct drive_bytes {
    double out_mean, out_busiest, in_mean, in_busiest;
    double messages; /* sent by the machine that sends most of them */
} drive_bytes;

typedef struct drive_result {
    bool replayed;
    model_phase phase[MAX_PHASES];
    drive_bytes rank, server;
} drive_result;

bool drive_run(const drive_options *o, drive_result *result, char *why);
#endif
