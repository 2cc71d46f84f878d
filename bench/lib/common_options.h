/* SPDX-License-Identifier: MIT
 *
 * Options that several programs have: the same names, words and values in all of them.
 */
#ifndef BENCH_COMMON_OPTIONS_H
#define BENCH_COMMON_OPTIONS_H

#include "grid.h"
#include "option_table.h"
#include "program.h"
#include "source.h"

enum { /* of common options without a letter */
       KEY_LIST = OPTION_KEY,
       KEY_TRACES,
       KEY_COLD,
       KEY_STEPS,
       KEY_SEED,
       KEY_WARMUP,
       KEY_ROUNDS,
       KEY_ISA,
       KEY_WIDE,
       KEY_FORMAT,
       KEY_VERSION,
       OWN_KEY /* the first key of a program's own options */
};

/* Rows of tables of options. */
#define ENTRY_LIST {KEY_LIST, "list", NULL, "print names, parameters and papers of all codecs, and exit"}
#define ENTRY_TRACES                                                                                                   \
    {KEY_TRACES, "traces", "DIR",                                                                                      \
     "make gradients of recorded ones, as in bench/data\n"                                                             \
     "(default: of drawn laplace values)"}
#define ENTRY_COLD {KEY_COLD, "cold", NULL, "start from a residual of zero, not from the recorded one"}
#define ENTRY_STEPS {KEY_STEPS, "steps", "N", "only the first N steps of files; steps to draw (default 16)"}
#define ENTRY_SEED {KEY_SEED, "seed", "N", "for gradients and stochastic codecs (default 1)"}
#define ENTRY_WARMUP {KEY_WARMUP, "warmup", "STEPS", "steps before measuring (default 5)"}
#define ENTRY_ROUNDS {KEY_ROUNDS, "rounds", "STEPS", "steps that are measured (default 5)"}
#define ENTRY_ISA                                                                                                      \
    {KEY_ISA, "isa", "NAME",                                                                                           \
     "kernels to use: auto, scalar, avx2, avx512 or neon\n"                                                            \
     "(default auto)"}
#define ENTRY_WIDE {KEY_WIDE, "wide", NULL, "tables with all columns"}
#define ENTRY_FORMAT {KEY_FORMAT, "format", "NAME", "table, markdown, csv or json (default table)"}
#define ENTRY_QUIET {'q', "quiet", NULL, "no progress on stderr"}
#define ENTRY_HELP {'h', "help", NULL, "print this and exit"}
#define ENTRY_VERSION {KEY_VERSION, "version", NULL, "print the version and the ISAs of this machine, and exit"}

/* Where the values go. A program sets those of the options that it has. */
typedef struct common_options {
    command *command;
    source_options *source; /* --cold, --steps and --seed */
    char **traces;
    size_t *warmup, *rounds;
    tlc_isa *isa;
    report_format *format;
    bool *wide, *quiet;
} common_options;

/* Takes one of these options. false: why says what is wrong. */
bool common_options_take(const common_options *to, int key, const char *value, char *why);
#endif
