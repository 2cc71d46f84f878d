/* SPDX-License-Identifier: MIT
 *
 * Pages are slow to get, so those that were given back serve again. Only one thread at a time runs here.
 */
#include "heap.h"
#include "../support/support.h"
#include <stdlib.h>

enum { ALIGNMENT = 16, JUNK = 0xa5 };

struct heap_block {
    heap_block *next;
    guard_buffer pages;
    uint8_t *memory;
    size_t size;
};

static heap_block *spare;

static size_t capacity(const heap_block *b)
{
    return (size_t)(b->pages.end - b->pages.start);
}

static size_t padding(size_t size)
{
    return (ALIGNMENT - size % ALIGNMENT) % ALIGNMENT;
}

/* A block that is not much larger. */
static heap_block *find_spare(size_t size)
{
    heap_block **entry = &spare, *b;

    while (*entry && (capacity(*entry) < size || capacity(*entry) / 2 > size + (*entry)->pages.page))
        entry = &(*entry)->next;
    b = *entry;
    if (b)
        *entry = b->next;
    return b;
}

static heap_block *new_block(size_t size)
{
    heap_block *b = calloc(1, sizeof *b);

    if (b && guard_alloc(&b->pages, size)) {
        free(b);
        b = NULL;
    }
    return b;
}

static void *take(void *opaque, size_t size)
{
    heap *h = opaque;
    const int has_memory = h->left && size < SIZE_MAX / 2;
    const size_t whole = size + padding(size);
    heap_block *b = has_memory ? find_spare(whole) : NULL;

    require(size); /* an allocator may have none of that size */
    if (h->left > 0 || (!h->left && h->once))
        h->left--;
    if (has_memory && !b)
        b = new_block(whole);
    if (!b)
        return NULL;
    b->size = size;
    b->memory = guard_at_end(&b->pages, whole);
    memset(b->memory, JUNK, whole);
    b->next = h->blocks;
    h->blocks = b;
    h->used++;
    h->largest = size > h->largest ? size : h->largest;
    return b->memory;
}

/* cppcheck-suppress constParameter ; an allocator has this function */
static void give_back(void *opaque, void *memory)
{
    heap *h = opaque;
    heap_block **entry = &h->blocks, *b = *entry;

    for (; b && b->memory != memory; b = *entry)
        entry = &b->next;
    require(b); /* what was never taken is not given back */
    /* cppcheck-suppress nullPointerRedundantCheck ; required */
    for (size_t i = 0; i < padding(b->size); i++)
        require(b->memory[b->size + i] == JUNK);
    memset(b->memory, JUNK, b->size); /* nobody has use for it */
    *entry = b->next;
    b->next = spare;
    spare = b;
    h->used--;
}

tlc_allocator heap_allocator(heap *h)
{
    return (tlc_allocator){take, give_back, h};
}

void heap_empty(heap *h)
{
    while (h->blocks)
        give_back(h, h->blocks->memory);
}
