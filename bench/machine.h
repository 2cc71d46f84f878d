/* SPDX-License-Identifier: MIT
 *
 * What decides how memcpy copies: the floors of codecs are against memcpy, so its ways belong beside it.
 */
#ifndef BENCH_MACHINE_H
#define BENCH_MACHINE_H

#include <stddef.h>

/* Bytes; 0: unknown. */
typedef struct machine {
    size_t cache;     /* last-level */
    size_t streaming; /* copies of this size and larger use non-temporal stores in libc's memcpy */
} machine;

void machine_ask(machine *m);
#endif
