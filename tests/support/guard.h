/* SPDX-License-Identifier: MIT
 *
 * Buffers between two pages that nobody may touch: a byte read or written before the start or past the end faults.
 */
#ifndef TLC_TEST_GUARD_H
#define TLC_TEST_GUARD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#if !defined(MAP_ANONYMOUS)
#define MAP_ANONYMOUS MAP_ANON
#endif

typedef struct guard_buffer {
    uint8_t *start, *end; /* usable: [start, end), whole pages; the pages on both sides fault */
    size_t page;
} guard_buffer;

/* Room for at least `capacity` bytes, zeroed. Returns 0, or -1 if there is no memory. */
static inline int guard_alloc(guard_buffer *b, size_t capacity)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), usable = (capacity + page) / page * page;
    uint8_t *map = (uint8_t *)mmap(NULL, usable + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (map == (uint8_t *)MAP_FAILED)
        return -1;
    b->page = page;
    b->start = map + page;
    b->end = b->start + usable;
    return mprotect(b->start, usable, PROT_READ | PROT_WRITE);
}

static inline void guard_free(guard_buffer *b)
{
    munmap(b->start - b->page, (size_t)(b->end - b->start) + 2 * b->page);
}

/* The place of `size` bytes that end where the faulting page begins. */
static inline uint8_t *guard_at_end(const guard_buffer *b, size_t size)
{
    return b->end - size;
}
#endif
