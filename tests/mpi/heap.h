/* SPDX-License-Identifier: MIT
 *
 * Memory of one rank, which is counted and may end.
 */
#ifndef TLC_TEST_HEAP_H
#define TLC_TEST_HEAP_H

#include "../support/support.h"
#include <stdlib.h>
#include <threelc/threelc.h>

typedef struct heap {
    int left; /* allocations that may succeed; -1: any number */
    int once; /* after them one fails, and then there is memory again */
    int used;
} heap;

static inline void *heap_take(void *opaque, size_t size)
{
    heap *h = opaque;
    void *memory = h->left ? malloc(size) : NULL;

    if (h->left > 0 || (!h->left && h->once))
        h->left--;
    h->used += memory != NULL;
    return memory;
}

static inline void heap_give_back(void *opaque, void *memory)
{
    heap *h = opaque;

    require(memory); /* what was never taken is not given back */
    h->used--;
    free(memory);
}

static inline tlc_allocator heap_allocator(heap *h)
{
    return (tlc_allocator){heap_take, heap_give_back, h};
}
#endif
