/* SPDX-License-Identifier: MIT
 *
 * Times of calls that find nothing in the caches. They are times of the thread: what others do on its core does not
 * count.
 */
#ifndef BENCH_COLD_H
#define BENCH_COLD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cold {
    unsigned char *bytes; /* what fills the caches */
    size_t size;
} cold;

/* data: bytes that calls work on. cache: bytes of the last-level cache; 0: not known. false: no memory. */
bool cold_open(cold *c, size_t data, size_t cache);
void cold_close(cold *c);

/* Fills the caches with something else. Returns the seconds of the thread's clock. */
double cold_start(const cold *c);
/* Seconds since then. */
double cold_stop(double start);
#endif
