/* SPDX-License-Identifier: MIT
 *
 * Rows of --frames: frames of many senders are added to one sum, as a receiver of all of them does.
 */
#ifndef BENCH_FRAMES_H
#define BENCH_FRAMES_H

#include "rows.h"

/* Draws gradients of `values` values for each of some senders, and compresses them step by step with each codec of o.
 * The frames of the last step are added. There is a row for each number of threads, codec and number of frames. Before
 * a row is measured, it checks the sums: one call of tlc_decompress_add_many must give the very bits that as many calls
 * of tlc_decompress_add give on one thread, also from zero. s keeps the name and the size, also after a failure. */
bool frames_rows(row_list *list, const options *o, source *s, size_t values, const cores *c, char *why);
#endif
