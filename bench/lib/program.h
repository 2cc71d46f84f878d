/* SPDX-License-Identifier: MIT
 *
 * What the programs of this folder say, and how they end.
 */
#ifndef BENCH_PROGRAM_H
#define BENCH_PROGRAM_H

#include "option_table.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* Prints the reason on stderr. Returns the status. */
int program_fail(const char *program, int status, const char *why);

/* Writes what is still buffered: only now a full disk or a closed pipe shows. Returns the exit status. */
int program_close_output(const char *program);

/* Does what another command than COMMAND_RUN asks for. Returns the exit status. */
int program_answer(const char *program, command asked, const option_table *options);

/* Shows on stderr, if that is a terminal, what is done: for the first of 12 rows or steps "[1 of 12] NAME, OF: WHAT".
 * of: where the gradients are from. */
void program_progress(bool quiet, size_t number, size_t total, const char *name, const char *of, const char *what);
void program_progress_end(bool quiet);
#endif
