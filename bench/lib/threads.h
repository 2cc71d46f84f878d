/* SPDX-License-Identifier: MIT
 *
 * Threads for tlc_parallel, and the cores that they run on.
 */
#ifndef BENCH_THREADS_H
#define BENCH_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <threelc/threelc.h>

enum { MAX_THREADS = 256 };

/* Cores that the process may use, the current one first. There are 0 if the system does not tell. */
typedef struct cores {
    size_t count;
    int core[MAX_THREADS];
} cores;

/* Finds the cores, and pins the calling thread to its core, so that caches and clock are the same for all rows. */
void cores_find(cores *c);

typedef struct pool pool;

/* Starts threads - 1 workers; the caller is the first thread. Each is pinned to a core of its own, as long as there are
 * enough cores. NULL: it failed, and why says so. */
pool *pool_open(size_t threads, const cores *c, char *why);
void pool_close(pool *p); /* NULL is fine */

/* Each thread gets neighbouring tasks, the same ones in every call, so that it finds its data in its cache. */
tlc_parallel pool_parallel(pool *p);
#endif
