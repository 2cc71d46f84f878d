/* SPDX-License-Identifier: MIT
 *
 * Prints what was measured: as an aligned table, as Markdown, as CSV (RFC 4180) or as JSON.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "measure.h"
#include "source.h"
#include "verify.h"
#include <stdio.h>

typedef enum report_format { REPORT_TABLE, REPORT_MARKDOWN, REPORT_CSV, REPORT_JSON } report_format;

typedef struct report_row {
    const char *codec;
    const tensor *tensor; /* NULL: all of them */
    verified verified;
    measured measured;
} report_row;

/* Rows come in groups, one for all tensors and then perhaps one for each: group after group, in each the codecs. */
typedef struct report {
    const source *source;
    const report_row *rows;
    size_t count;  /* of rows */
    size_t codecs; /* rows in a group */
    bool checksum;
    uint64_t seed;
} report;

void report_print(FILE *stream, report_format format, const report *r);
#endif
