/* SPDX-License-Identifier: MIT
 *
 * What tlc-sim predicts for a way: machines in this process are measured, and the model of links does the rest. No
 * message of MPI is measured.
 */
#ifndef MPI_FORECAST_H
#define MPI_FORECAST_H

#include "way.h"

typedef struct forecast_options {
    double share; /* ranks for each core, at least 1: calls of ranks take this many times as long */
    size_t cache; /* bytes of the last-level cache; 0: not known */
    size_t ranks;
} forecast_options;

/* Seconds of a step: with one handle one thing after the other, with several all at once (link_model.h). NAN: there is
 * nothing to predict for one worker. */
bool forecast(const way_options *o, const forecast_options *f, double *seconds, char *why);
#endif
