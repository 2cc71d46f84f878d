/* SPDX-License-Identifier: MIT
 *
 * Options that several programs have: the same names, words and values in all of them. The members that their values go
 * to have the same names, too.
 */
#ifndef BENCH_COMMON_OPTIONS_H
#define BENCH_COMMON_OPTIONS_H

#include "grid.h"
#include "option_table.h"
#include "program.h"
#include "source.h"

#define ENTRY_LIST                                                                                                     \
    {0,                                                                                                                \
     "list",                                                                                                           \
     NULL,                                                                                                             \
     "print names, parameters and papers of all codecs, and exit",                                                     \
     OPTION_AT(COMMAND, command),                                                                                      \
     .which = COMMAND_LIST}
#define ENTRY_TRACES                                                                                                   \
    {0, "traces", "DIR",                                                                                               \
     "make gradients of recorded ones, as in bench/data: for models\n"                                                 \
     "with attention (attn or attention in a name of a tensor) of those\n"                                             \
     "in DIR/transformer, if there are any, else of those in DIR\n"                                                    \
     "(default: of drawn laplace values)",                                                                             \
     OPTION_AT(PATH, traces)}
#define ENTRY_COLD                                                                                                     \
    {0, "cold", NULL, "start from a residual of zero, not from the recorded one", OPTION_AT(FLAG, source.cold)}
#define ENTRY_STEPS                                                                                                    \
    {0, "steps", "N", "only the first N steps of files; steps to draw (default 16)",                                   \
     OPTION_IN(SIZE, source.steps, 1, SOURCE_MAX_STEPS)}
#define ENTRY_SEED {0, "seed", "N", "for gradients and stochastic codecs (default 1)", OPTION_AT(SEED, source.seed)}
#define ENTRY_WARMUP                                                                                                   \
    {0, "warmup", "STEPS", "steps before measuring (default 5)", OPTION_IN(SIZE, warmup, 0, SOURCE_MAX_STEPS)}
#define ENTRY_ROUNDS                                                                                                   \
    {0, "rounds", "STEPS", "steps that are measured (default 5)", OPTION_IN(SIZE, rounds, 1, SOURCE_MAX_STEPS)}
#define ENTRY_ISA(member)                                                                                              \
    {0, "isa", "NAME",                                                                                                 \
     "kernels to use: auto, scalar, avx2, avx512 or neon\n"                                                            \
     "(default auto)",                                                                                                 \
     OPTION_AT(ISA, member)}
#define ENTRY_WIDE {0, "wide", NULL, "tables with all columns", OPTION_AT(FLAG, wide)}
#define ENTRY_FORMAT {0, "format", "NAME", "table, markdown, csv or json (default table)", OPTION_AT(FORMAT, format)}
#define ENTRY_QUIET {'q', "quiet", NULL, "no progress on stderr", OPTION_AT(FLAG, quiet)}
#define ENTRY_HELP {'h', "help", NULL, "print this and exit", OPTION_AT(COMMAND, command), .which = COMMAND_HELP}
#define ENTRY_VERSION                                                                                                  \
    {0,                                                                                                                \
     "version",                                                                                                        \
     NULL,                                                                                                             \
     "print the version and the ISAs of this machine, and exit",                                                       \
     OPTION_AT(COMMAND, command),                                                                                      \
     .which = COMMAND_VERSION}
/* Several of them. */
#define ENTRIES_STEPS ENTRY_TRACES, ENTRY_COLD, ENTRY_STEPS, ENTRY_SEED, ENTRY_WARMUP, ENTRY_ROUNDS
#define ENTRIES_LAST ENTRY_QUIET, ENTRY_HELP, ENTRY_VERSION
#endif
