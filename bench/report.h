/* SPDX-License-Identifier: MIT
 *
 * Prints what was measured: as an aligned table, as Markdown, as CSV (RFC 4180) or as JSON.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "machine.h"
#include "measure.h"
#include "source.h"
#include "verify.h"
#include <stdio.h>

typedef enum report_format { REPORT_TABLE, REPORT_MARKDOWN, REPORT_CSV, REPORT_JSON } report_format;

/* Which columns tables have. */
typedef enum report_view {
    VIEW_CODECS = 1, VIEW_ROOFLINE = 2, VIEW_SMALL = 4, VIEW_DENSITY = 8, VIEW_AGGREGATE = 16
} report_view;

typedef enum row_kind { ROW_COPY, ROW_ROOFLINE, ROW_CODEC, ROW_PEER, ROW_AGGREGATE } row_kind;

/* What is timed in the rounds of a row; those with ROOF are what the ones before are compared with, beside memcpy. */
enum { TIME_MEMCPY, TIME_COMPRESS, TIME_DECOMPRESS, TIME_ADD, TIME_COMPRESS_ROOF, TIME_DECOMPRESS_ROOF, TIME_ADD_ROOF,
       TIME_RANDOM, TIME_AGGREGATE, TIMES };

typedef struct report_row {
    row_kind kind;
    const char *name;   /* the codec string, the peer's name, or what it is */
    const char *tensor; /* NULL: all of them */
    bool assume_finite;
    size_t threads, steps, rounds;
    size_t delay;       /* steps for each frame */
    size_t inputs;      /* frames that are aggregated, each from the values of a step; 0: nothing is */
    size_t values;      /* in a step */
    size_t calls;       /* frames in a pass */
    double gigabytes;   /* of input, in a pass */
    timing time[TIMES]; /* NaN where it is not timed */
    verified verified;  /* of codecs and peers */
} report_row;

typedef struct report {
    report_view view;
    const source *sources; /* one after the other, their values dropped */
    size_t source_count;
    const report_row *rows;
    size_t count;
    tlc_dtype dtype;
    machine machine;
    bool checksum;
    uint64_t seed;
} report;

void report_print(FILE *stream, report_format format, const report *r);
#endif
