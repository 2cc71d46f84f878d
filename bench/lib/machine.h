/* SPDX-License-Identifier: MIT
 *
 * Two sizes that decide how memcpy copies. Speeds are compared with memcpy, so reports show them.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>

/* Bytes; 0: unknown. */
typedef struct machine {
    size_t cache;     /* last-level */
    size_t streaming; /* memcpy of libc uses non-temporal stores from this size on */
} machine;

void machine_ask(machine *m);
#endif
