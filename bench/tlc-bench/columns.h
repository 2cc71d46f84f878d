/* SPDX-License-Identifier: MIT
 *
 * The columns of the report, one list for all formats. CSV and JSON have all columns; tables have those of their view.
 */
#ifndef BENCH_COLUMNS_H
#define BENCH_COLUMNS_H

#include "../lib/grid.h"
#include "report_row.h"

typedef enum column_id {
    TENSOR,
    KIND,
    CODEC,
    PAPER,
    ISA,
    DTYPE,
    FEEDBACK,
    ASSUME_FINITE,
    THREADS,
    STEPS,
    DELAY,
    INPUTS,
    FRAMES,
    MODEL,
    ALGORITHM,
    RANKS,
    OWNERS,
    NEXT,
    CHANGED,
    VALUES,
    ROUNDS,
    RUN,
    RUN_S,
    START,
    MEMCPY,
    MEMCPY_BEST,
    COMPRESS,
    COMPRESS_BEST,
    COMPRESS_NS,
    COMPRESS_X,
    COMPRESS_BOTH_X,
    COMPRESS_ROOF,
    RANDOM,
    DECOMPRESS,
    DECOMPRESS_BEST,
    DECOMPRESS_NS,
    DECOMPRESS_X,
    DECOMPRESS_ROOF,
    ADD,
    ADD_BEST,
    ADD_NS,
    ADD_X,
    ADD_ROOF,
    ADD_MANY,
    ADD_MANY_X,
    ADD_MANY_GAIN,
    ADD_MANY_ROOF,
    FROM_ZERO,
    FROM_ZERO_X,
    FROM_ZERO_GAIN,
    FROM_ZERO_ROOF,
    APPLY,
    APPLY_BEST,
    APPLY_X,
    APPLY_ROOF,
    AGGREGATE_ATE,
    AGGREGATE,
    AGGREGATE_X,
    STEP_MS,
    STEP_BEST_MS,
    CODECS_MS,
    CODECS_BEST_MS,
    ADD_MANY_MS,
    OTHER,
    OTHER_BEST,
    RATIO,
    BITS,
    SENT_MEAN,
    SENT_BUSIEST,
    FRAMING,
    ENTROPY,
    ENTROPY_X,
    CLIPPED,
    NONZERO,
    STEP_ERROR,
    SUM_ERROR,
    RESIDUAL_X,
    RESIDUAL,
    FRAME_BYTES,
    CRC,
    COLUMNS
} column_id;

typedef struct column {
    const char *key;
    column_kind kind;
    unsigned views; /* whose tables have it, */
    unsigned wide;  /* and whose have it with --wide */
    const char *title, *unit;
    const char *format; /* for reals in tables */
} column;

extern const column columns[COLUMNS];

/* Whether the tables of this report have the column. */
bool column_shown(const report *r, column_id id);

/* The text of the cell, in buffer (CELL bytes) or elsewhere; empty if there is no value. Tables have rounded
 * numbers. */
const char *column_cell(const report *r, const report_row *row, column_id id, bool in_table, char *buffer);
#endif
