/* SPDX-License-Identifier: MIT
 *
 * Measures ways to exchange gradients, side by side: each round has a step of each way, and each round begins with
 * another one. The results of the last step are verified.
 */
#ifndef MPI_RACE_H
#define MPI_RACE_H

#include "../lib/measure.h"
#include "way.h"

/* Of all ranks, in a mean step; only rank 0 has them. */
typedef struct race_result {
    timing step;            /* seconds of the slowest rank */
    double codec, waiting;  /* medians of those of the rank with most of it; NAN: not known */
    double sent_mean, sent; /* bytes of a worker, and of the busiest one */
    double server_sent;     /* of the busiest rank that is only a server; NAN: there is none */
    double messages;        /* of the worker that sends most of them; NAN: not known */
} race_result;

/* Collective. results: one for each way. false: a way could not be opened, or a result is wrong. A rank whose step
 * fails ends the program. */
bool race_run(const way_options *ways, size_t count, const char *program, race_result *results, char *why);
#endif
