/* SPDX-License-Identifier: MIT
 *
 * Threads for tlc_parallel, and the cores that they stay on.
 */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <threelc/threelc.h>

enum { MAX_THREADS = 256 };

/* Cores that the process may use, the one it runs on first; 0 of them if the system does not tell. */
typedef struct cores {
    size_t count;
    int core[MAX_THREADS];
} cores;

/* Finds the cores and keeps the calling thread on its own, so that caches and clock stay the same for all rows. */
void cores_find(cores *c);

typedef struct pool pool;

/* Starts threads - 1 workers, each kept on a core of its own as long as there are enough; the caller is the first of the
 * threads. NULL: it failed, and why says so. */
pool *pool_open(size_t threads, const cores *c, char *why);
void pool_close(pool *p); /* NULL is fine */

/* Neighbouring tasks go to the same thread, the same ones in every call: what a thread has in its cache it finds again. */
tlc_parallel pool_parallel(pool *p);
#endif
