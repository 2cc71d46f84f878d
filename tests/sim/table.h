/* SPDX-License-Identifier: MIT
 *
 * What many runs found, and how it is printed.
 */
#ifndef TLC_SIM_TABLE_H
#define TLC_SIM_TABLE_H

#include "run.h"

enum { RANK_CLASSES = 4, CODEC_FAMILIES = 24, MOST_FAILURES = 20 };

typedef struct failure {
    uint64_t seed;
    promise which;
    char text[500];
} failure;

/* Plain numbers, so that it can lie in memory that processes share. */
typedef struct table {
    uint64_t seeds[FAMILIES][RANK_CLASSES], steps[FAMILIES][RANK_CLASSES], failed[FAMILIES][RANK_CLASSES],
        broken[FAMILIES][RANK_CLASSES];
    uint64_t injected[FAULTS][FAMILIES], with_fault[FAULTS][FAMILIES];
    uint64_t codec[CODEC_FAMILIES][FAMILIES];
    uint64_t checks[PROMISES], breaks[PROMISES];
    uint64_t digest; /* of all runs, in any order */
    failure failure[MOST_FAILURES];
    size_t failures; /* that are kept */
} table;

void table_add(table *t, const scenario *sc, const findings *f);
void table_merge(table *t, const table *other);
uint64_t table_seeds(const table *t);
uint64_t table_breaks(const table *t);
void table_print(const table *t, double seconds);

/* A line for each promise, in the Test Anything Protocol. */
void table_print_tap(const table *t);

#endif
