/* SPDX-License-Identifier: MIT
 *
 * The library without memory. In a program that is linked with no_memory.c and no_memory_link_args all calls of malloc,
 * calloc, realloc and free come here first. Calls by the library are counted, and may fail. Calls by the test succeed.
 */
#ifndef TLC_TEST_NO_MEMORY_H
#define TLC_TEST_NO_MEMORY_H

#include "support.h"
#include <stdatomic.h>

typedef struct memory_use {
    atomic_size_t asked, left, live; /* allocations wanted; that may still succeed; not freed yet */
} memory_use;
extern memory_use memory;

/* What this thread does between these two counts as the library's; `left` allocations succeed. It is one call, which
 * must get by with little stack, too (stack.h). */
void starve(size_t left);
void feed(void);

/* As starve, of any number of calls, with any stack: others' code is called, too. */
void ration(size_t left);

/* A call that must return want without an allocation. */
#define starved(call, want)                                                                                            \
    do {                                                                                                               \
        starve(0);                                                                                                     \
        tlc_status status_ = (call);                                                                                   \
        feed();                                                                                                        \
        require_status_is(#call, status_, want, __FILE__, __LINE__);                                                   \
        require(memory.asked == 0);                                                                                    \
    } while (0)

/* The same for calls that return no status. */
#define starved_run(statement)                                                                                         \
    do {                                                                                                               \
        starve(0);                                                                                                     \
        statement;                                                                                                     \
        feed();                                                                                                        \
        require(memory.asked == 0);                                                                                    \
    } while (0)

/* A tlc_allocator that counts. */
typedef struct counter {
    size_t made, freed, left; /* left: how many may still succeed */
    size_t refused;
    int once;    /* only one is refused */
    int starved; /* the library has no other memory */
} counter;
void *counted_alloc(void *opaque, size_t size);
void counted_free(void *opaque, void *ptr);

/* The runner. Its tasks count as the library's, its own work does not. */
tlc_parallel starved_runner(const runner *r);

#endif
