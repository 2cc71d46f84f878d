/* SPDX-License-Identifier: MIT
 *
 * Buffers between two pages that nobody may touch: a byte read or written before the start or past the end faults.
 */
#ifndef TLC_TEST_GUARD_H
#define TLC_TEST_GUARD_H

#include <stddef.h>
#include <stdint.h>

typedef struct guard_buffer {
    uint8_t *start, *end; /* usable: [start, end), whole pages; the pages on both sides fault */
    size_t page;
} guard_buffer;

/* Room for at least `capacity` bytes, zeroed. Returns 0, or -1 if there is no memory. */
int guard_alloc(guard_buffer *b, size_t capacity);
void guard_free(guard_buffer *b);
/* Whether writing faults, too. Returns 0, or -1. */
int guard_readonly(const guard_buffer *b, int on);

/* The place of `size` bytes that end where the faulting page begins. */
static inline uint8_t *guard_at_end(const guard_buffer *b, size_t size)
{
    return b->end - size;
}
#endif
