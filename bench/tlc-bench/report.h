/* SPDX-License-Identifier: MIT
 *
 * Prints the report: as an aligned table, as Markdown, as CSV (RFC 4180) or as JSON.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "../lib/grid.h"
#include "report_row.h"
#include <stdio.h>

void report_print(FILE *stream, report_format format, const report *r);
#endif
