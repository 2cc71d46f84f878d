/* SPDX-License-Identifier: MIT
 *
 * What the command line of tlc-bench asks for.
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "../lib/channel.h"
#include "../lib/codecs.h"
#include "../lib/fleet.h"
#include "../lib/grid.h"
#include "../lib/papers.h"
#include "../lib/parse.h"
#include "../lib/program.h"
#include "../lib/source.h"
#include "../lib/threads.h"
#include "report_row.h"
#include "weights.h"

#define WARMUP_BY_DEFAULT SIZE_MAX /* that of the view */

enum { MAX_INPUTS = 64, MAX_FRAMES = 256, MAX_SHAPES = 8 };

typedef struct options {
    command command;
    report_view view; /* what is measured; VIEW_CODECS is the default */
    design codecs[MAX_CODECS];
    size_t codec_count;
    codec_set all;         /* the codecs of "all", if it was given */
    const char *synthetic; /* the distribution; NULL: files */
    char *const *paths;
    size_t path_count;
    size_list sizes; /* none: source.values */
    size_list threads;
    size_list inputs; /* numbers of frames that are aggregated, for VIEW_AGGREGATE */
    size_list frames; /* numbers of frames that are added, for VIEW_FRAMES */
    /* for VIEW_EXCHANGE */
    size_list ranks;                /* or workers */
    size_list owners;               /* of rows with fewer owners than ranks */
    unsigned algorithms;            /* enum algorithm */
    const char *shapes[MAX_SHAPES]; /* lists of tensors (shapes.h) */
    size_t shape_count;
    weight_moves moves; /* for VIEW_DELTA, if weights are drawn */
    source_options source;
    channel_options channel;   /* of all rows */
    double seconds;            /* for each row */
    size_t warmup;             /* steps before the clock starts, rounded up to whole passes, at least one */
    bool assume_finite, peers; /* add rows */
    report_format format;
    bool wide, per_tensor, quiet;
    bool has_dtype;       /* --dtype was given */
    const char *defaults; /* folder with data and shapes, for what is not named; NULL: none */
} options;

/* How the rows of a design are sent. */
channel_options options_channel(const options *o, const design *d);

/* The name of the option that chooses the view, without the dashes; NULL for VIEW_CODECS. */
const char *options_view_name(report_view view);

/* Whether a codec is one of papers.h. */
bool options_have_papers(const options *o);
#endif
