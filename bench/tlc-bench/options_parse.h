/* SPDX-License-Identifier: MIT
 *
 * The command line of tlc-bench.
 */
#ifndef BENCH_OPTIONS_PARSE_H
#define BENCH_OPTIONS_PARSE_H

#include "options.h"

/* false: why (WHY_SIZE bytes, explain.h) says what is wrong. o has pointers into argv and into itself, so it must not
 * be moved. */
bool options_parse(options *o, int argc, char **argv, char *why);

extern const option_table options_table;
#endif
