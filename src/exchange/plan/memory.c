/* SPDX-License-Identifier: MIT */
#include "memory.h"

#define LINE 64 /* bytes of a cache line */

typedef struct tlc_allocation {
    struct tlc_allocation *before;
} tlc_allocation;

void *tlc_memory_take(tlc_memory *m, uint64_t count, size_t size)
{
    uint64_t bytes = tlc_product(count, size), all = tlc_sum(bytes, sizeof(tlc_allocation) + LINE);
    tlc_allocation *taken = NULL;

    if (m->status)
        return NULL;
    m->refused = all;
    if (all >= SIZE_MAX) {
        m->status = TLC_ERR_SIZE;
        return NULL;
    }
    taken = m->alloc.alloc(m->alloc.opaque, (size_t)all);
    if (!taken) {
        m->status = TLC_ERR_NOMEM;
        return NULL;
    }
    taken->before = m->last;
    m->last = taken;
    uintptr_t begin = (uintptr_t)(taken + 1), aligned = (begin + LINE - 1) / LINE * LINE;
    return memset((char *)(taken + 1) + (aligned - begin), 0, (size_t)bytes);
}

const char *tlc_memory_copy(tlc_memory *m, const char *text)
{
    char *copy = text ? tlc_memory_take(m, strlen(text) + 1, 1) : NULL;

    return copy ? memcpy(copy, text, strlen(text) + 1) : NULL;
}

void tlc_memory_free(tlc_memory *m)
{
    while (m->last) {
        tlc_allocation *last = m->last;
        m->last = last->before;
        m->alloc.free(m->alloc.opaque, last);
    }
}
