/* SPDX-License-Identifier: MIT
 *
 * Memory of one rank, which is counted and may end. Each allocation ends at a guard page, and is not 0 at first.
 */
#ifndef TLC_TEST_HEAP_H
#define TLC_TEST_HEAP_H

#include <threelc/threelc.h>

typedef struct heap_block heap_block;

typedef struct heap {
    int left; /* allocations that may succeed; -1: any number */
    int once; /* after them one fails, and then there is memory again */
    int used;
    size_t largest; /* bytes of the largest allocation */
    heap_block *blocks;
} heap;

tlc_allocator heap_allocator(heap *h);
void heap_empty(heap *h); /* gives back what is left */
#endif
