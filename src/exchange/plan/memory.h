/* SPDX-License-Identifier: MIT
 *
 * The memory of an object of the exchange: allocations that are made with it and freed together.
 */
#ifndef TLC_MEMORY_H
#define TLC_MEMORY_H

#include "../../common/sizes.h"
#include <threelc/threelc.h>

typedef struct tlc_memory {
    tlc_allocator alloc;
    struct tlc_allocation *last;
    tlc_status status; /* of the first allocation that failed */
    uint64_t refused;  /* its bytes */
} tlc_memory;

/* count elements of `size` bytes, all 0, at a cache line. NULL: m->status says why. */
void *tlc_memory_take(tlc_memory *m, uint64_t count, size_t size);

/* A copy of a string, or NULL for NULL. */
const char *tlc_memory_copy(tlc_memory *m, const char *text);

void tlc_memory_free(tlc_memory *m);
#endif
