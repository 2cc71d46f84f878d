/* SPDX-License-Identifier: MIT
 *
 * What was measured: a row for each copy, roofline, codec and peer, and the report that has these rows.
 */
#ifndef BENCH_REPORT_ROW_H
#define BENCH_REPORT_ROW_H

#include "../lib/machine.h"
#include "../lib/measure.h"
#include "../lib/source.h"
#include "verify.h"

/* What is measured; it decides which columns tables have. */
typedef enum report_view {
    VIEW_CODECS = 1,
    VIEW_ROOFLINE = 2,
    VIEW_SMALL = 4,
    VIEW_DENSITY = 8,
    VIEW_AGGREGATE = 16,
    VIEW_FRAMES = 32,
    VIEW_EXCHANGE = 64,
    VIEW_DELTA = 128
} report_view;

typedef enum row_kind {
    ROW_COPY,
    ROW_ROOFLINE,
    ROW_CODEC,
    ROW_PEER,
    ROW_AGGREGATE,
    ROW_FRAMES,
    ROW_EXCHANGE,
    ROW_DELTA
} row_kind;

/* What is timed in the rounds of a row. TIME_..._ROOF are the rooflines of compress, decompress, add and so on. In rows
 * of frames TIME_ADD is a single call for each frame, TIME_ADD_MANY and TIME_FROM_ZERO one call for all frames. In rows
 * of the exchange TIME_STEP are its calls of a step, TIME_CODECS codec calls and checks alone, TIME_ADD_MANY those of
 * these that add frames. In rows of deltas TIME_MEMCPY copies the weights, TIME_MEMCPY_BOTH both inputs of compress. */
enum {
    TIME_MEMCPY,
    TIME_COMPRESS,
    TIME_DECOMPRESS,
    TIME_ADD,
    TIME_COMPRESS_ROOF,
    TIME_DECOMPRESS_ROOF,
    TIME_ADD_ROOF,
    TIME_RANDOM,
    TIME_AGGREGATE,
    TIME_ADD_MANY,
    TIME_FROM_ZERO,
    TIME_ADD_MANY_ROOF,
    TIME_FROM_ZERO_ROOF,
    TIME_STEP,
    TIME_CODECS,
    TIME_MEMCPY_BOTH,
    TIME_APPLY,
    TIME_APPLY_ROOF,
    TIMES
};

/* Of a row of the exchange. Bytes are those of a step, divided by the bytes of the frames of whole tensors of one rank.
 */
typedef struct exchanged {
    const char *algorithm;
    size_t ranks, owners;     /* owners 0: there are none */
    double mean, busiest;     /* sent by the mean machine, and by the one that sends most */
    double framing;           /* bytes of messages / bytes of the frames in them, - 1 */
    double other, other_best; /* time for neither codecs nor checks / time of codecs; of the median and of the best step
                               */
} exchanged;

typedef struct report_row {
    row_kind kind;
    const char *name;   /* the codec string, or the name of the peer, copy or roofline */
    const char *paper;  /* what a paper calls it; NULL: it is from no paper */
    const char *tensor; /* NULL: all tensors */
    const char *model;  /* whose tensors machines exchange; NULL: no exchange */
    const source *run;  /* that it was measured on, if there are runs; else NULL */
    bool own_run;       /* the run was trained with the s of the codec */
    bool assume_finite;
    bool repeats; /* it has more steps than the tensors, so the first ones come again */
    size_t threads, steps, rounds;
    size_t delay;       /* steps for each frame */
    size_t inputs;      /* frames that are aggregated, each of the values of a step; 0: no aggregation */
    size_t frames;      /* that are added to one sum, each of the values of a step; else 1 */
    size_t values;      /* in a step */
    size_t calls;       /* frames in a pass */
    double gigabytes;   /* of input, in a pass; in rows of frames that of one frame */
    timing time[TIMES]; /* NaN: not timed */
    verified verified;  /* for codecs and peers */
    const char *next;   /* the name of the next weights; NULL: no delta */
    double changed;     /* the share of the weights that differ */
    exchanged exchange;
} report_row;

/* A codec that was measured on a run with another s, or that has no s. */
static inline bool report_row_is_marked(const report_row *row)
{
    return (row->kind == ROW_CODEC || row->kind == ROW_EXCHANGE) && row->run && !row->own_run;
}

/* Whether the row is of a codec, so that it has an ISA. */
static inline bool report_row_has_codec(const report_row *row)
{
    return row->kind == ROW_CODEC || row->kind == ROW_AGGREGATE || row->kind == ROW_FRAMES ||
           row->kind == ROW_EXCHANGE || row->kind == ROW_DELTA;
}

typedef struct report {
    report_view view;
    const source *sources; /* runs, or one for each size and density; the values need not be there */
    size_t source_count;
    const report_row *rows;
    size_t count;
    tlc_dtype dtype;
    machine machine;
    bool checksum, cold;
    bool wide; /* tables have all columns of their view */
    uint64_t seed;
} report;

/* Whether all rows are of the tensors of the source: there is one source, or the sources are runs. */
static inline bool report_has_one_shape(const report *r)
{
    return r->view != VIEW_EXCHANGE && (r->source_count == 1 || r->sources[0].run);
}
#endif
