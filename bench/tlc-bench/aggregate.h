/* SPDX-License-Identifier: MIT
 *
 * Rows of --aggregate. Frames of the codec natural from several senders become one, as in an aggregator inside the
 * network.
 */
#ifndef BENCH_AGGREGATE_H
#define BENCH_AGGREGATE_H

#include "rows.h"

/* For each codec of o: draws a tensor of `values` values for each input, compresses it, and adds a row for each number
 * of inputs. It checks that the aggregate is byte for byte the frame that these calls give: zeros,
 * tlc_decompress_add of each frame in order, tlc_compress. The last input stays in s, also after a failure. */
bool aggregate_rows(row_list *list, const options *o, source *s, size_t values, char *why);
#endif
