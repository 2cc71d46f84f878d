/* SPDX-License-Identifier: MIT
 *
 * The rows of the report of tlc-mpi-bench: a way each, with what was measured and predicted.
 */
#ifndef MPI_ROWS_H
#define MPI_ROWS_H

#include "race.h"

typedef struct mpi_row {
    way_options way;
    bool own_run; /* gradients are of the run that was trained with the s of the codec */
    race_result measured;
    double predicted; /* seconds; NAN: nothing was predicted */
    size_t floats;    /* the row that it is compared with */
} mpi_row;

typedef struct mpi_rows {
    const mpi_options *o;
    const shape_list *model;
    mpi_row *rows; /* those of floats first */
    size_t count;
    size_t ranks;
    double share; /* ranks for each core of a machine */
} mpi_rows;

/* All ways that the options name, beside those of floats. false: no memory. The rows are to be freed. */
bool mpi_rows_plan(mpi_rows *list, source *sources, size_t source_count, char *why);
void mpi_rows_free(mpi_rows *list);

/* Collective: measures all rows. */
bool mpi_rows_measure(mpi_rows *list, const char *program, char *why);
/* Predicts all rows. Not collective. */
bool mpi_rows_predict(mpi_rows *list, char *why);

/* Bytes of floats / bytes of those tensors that are sent as they are, as they are small. INFINITY: there are none. */
double mpi_rows_cap(const shape_list *model);

/* Seconds of a step without --compute. */
double mpi_row_exchange(const mpi_row *row);
/* How many times as fast as the push and pull of floats. */
double mpi_row_speedup(const mpi_rows *list, const mpi_row *row);
/* As on the command line. buffer: KIND_TEXT bytes. */
const char *mpi_row_kind(const mpi_row *row, char *buffer);
#endif
