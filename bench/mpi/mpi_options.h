/* SPDX-License-Identifier: MIT
 *
 * The command line of tlc-mpi-bench.
 */
#ifndef MPI_OPTIONS_H
#define MPI_OPTIONS_H

#include "../lib/codecs.h"
#include "../lib/grid.h"
#include "../lib/parse.h"
#include "../lib/program.h"
#include "../lib/source.h"
#include "../sim/link_model.h"
#include "../sim/sim_kind.h"

#define PULL_SAME "same"

enum { HANDLE_PER_TENSOR = 0 };

typedef struct mpi_options {
    command command;
    const char *shapes; /* the list of tensors (shapes.h) */
    sim_choice choice;
    const char *pull;  /* codec of answers; NULL: one that keeps up with that of the pushes; PULL_SAME: that one */
    size_list handles; /* how many share the model; HANDLE_PER_TENSOR */
    bool apart;        /* the last ranks are servers only */
    bool even;         /* each tensor takes as long to compute */
    bool offload;      /* the core sleeps while an accelerator computes */
    bool no_predict;
    const char *traces; /* gradients are made of these; NULL: they are drawn */
    source_options source;
    size_t warmup, rounds;
    double compute;    /* seconds */
    model_link link;   /* up 0: not known */
    double latency;    /* seconds; below 0: not known, until the options are parsed */
    bool from_network; /* the link is that of bench/network/run */
    tlc_isa isa;
    report_format format;
    bool quiet;
} mpi_options;

/* false: why (WHY_SIZE bytes, explain.h) says what is wrong. o has pointers into argv. */
bool mpi_options_parse(mpi_options *o, int argc, char **argv, char *why);

/* What depends on the number of ranks. */
bool mpi_options_check_ranks(const mpi_options *o, size_t ranks, char *why);

extern const option_table mpi_options_table;
#endif
