/* SPDX-License-Identifier: MIT
 *
 * Prints the report of tlc-mpi-bench.
 */
#ifndef MPI_REPORT_H
#define MPI_REPORT_H

#include "mpi_rows.h"

void mpi_report_print(FILE *f, const mpi_rows *list);
#endif
