/* SPDX-License-Identifier: MIT
 *
 * The columns of the report of tlc-sim, one list for all formats.
 */
#ifndef SIM_COLUMNS_H
#define SIM_COLUMNS_H

#include "../lib/grid.h"
#include "sim_rows.h"

/* The rows as a grid. all: sim_column_count() columns, for the grid to point to; they must outlive it, as the list
 * must. */
size_t sim_column_count(void);
grid sim_grid(const sim_rows *list, bool wide, grid_column *all);
#endif
