/* SPDX-License-Identifier: MIT
 *
 * What all ranks of MPI_COMM_WORLD do together, or one of them for all.
 */
#ifndef MPI_RANKS_H
#define MPI_RANKS_H

#include <stdbool.h>
#include <stddef.h>

/* This rank, and how many there are. */
size_t ranks_me(void);
size_t ranks_count(void);

bool ranks_ask(bool ok, char *why);

/* Collective: whether all ranks say ok. Else why (WHY_SIZE bytes) is that of the first rank that does not. */
static inline bool ranks_agree(bool ok, char *why)
{
    return ranks_ask(ok, why) && ok; /* "&& ok" is for static analysis */
}

/* Collective: waits until all are here, and leaves the cores to those who are not. */
void ranks_wait(void);

/* Ends the program on all ranks: something went wrong while the others wait for this one. */
_Noreturn void ranks_abort(const char *program, const char *why);

/* Ranks on this machine for each of its cores; at least 1. one_machine: all ranks are here, and MPI does not know. */
double ranks_on_core(bool one_machine);
#endif
