/* SPDX-License-Identifier: MIT
 *
 * Rows of --aggregate: natural frames of several senders made into one, as an aggregator inside the network does.
 */
#ifndef BENCH_AGGREGATE_H
#define BENCH_AGGREGATE_H

#include "rows.h"

/* Draws the values of each input, one tensor, the last of which stays in s, whether or not it succeeds; compresses them
 * with each codec of o, and adds a row for each number of inputs. The aggregate is checked to be, byte for byte, what
 * tlc_decompress_add of all frames in their order, from zeros on, and tlc_compress of the sum give. */
bool aggregate_rows(row_list *list, const options *o, source *s, size_t values, char *why);
#endif
