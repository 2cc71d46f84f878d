/* SPDX-License-Identifier: MIT */
#include "run.h"
#include <stdlib.h>

#define PATTERN 0xa5

/* Before each piece of memory. */
typedef struct piece {
    struct piece *before, *next;
    size_t size;
    size_t of_object; /* 1: an object took it; then some bytes with a pattern follow the piece */
    max_align_t at[];
} piece;

enum { MARGIN = 24 };

static piece *piece_at(void *p)
{
    return (piece *)(void *)((char *)p - offsetof(piece, at));
}

static piece *add_piece(run *r, size_t size, size_t margin)
{
    piece *b = malloc(sizeof *b + size + margin);

    if (!b) {
        fprintf(stderr, "no memory for the simulator\n");
        exit(2);
    }
    *b = (piece){.next = r->pieces, .size = size, .of_object = margin != 0};
    if (r->pieces)
        r->pieces->before = b;
    r->pieces = b;
    memset((char *)b->at + size, PATTERN, margin);
    return b;
}

static void remove_piece(run *r, piece *b)
{
    if (b->before)
        b->before->next = b->next;
    else
        r->pieces = b->next;
    if (b->next)
        b->next->before = b->before;
    free(b);
}

void *take(run *r, size_t size)
{
    return memset(add_piece(r, size, 0)->at, 0, size);
}

void give(run *r, void *p)
{
    if (p)
        remove_piece(r, piece_at(p));
}

void give_all(run *r)
{
    for (piece *b = r->pieces, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    r->pieces = NULL;
}

static run *making;    /* the run that makes an object now, or NULL */
static int is_counted; /* malloc is called for the object's allocator */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

/* Calls of malloc come here: an object takes all its memory from its allocator. */
void *__wrap_malloc(size_t size)
{
    if (making && !is_counted)
        broken(making, E5, __FILE__, __LINE__, "an object took %zu bytes from malloc", size);
    return __real_malloc(size);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static void *counted_alloc(void *opaque, size_t size)
{
    run *r = opaque;
    piece *b;

    must(r, E5, r->may_allocate, "%zu bytes were allocated outside of a call that makes an object", size);
    if (r->allocations_left && --r->allocations_left == 0) {
        r->allocations_left = 1;
        return NULL;
    }
    is_counted = 1;
    b = add_piece(r, size, MARGIN);
    is_counted = 0;
    return memset(b->at, PATTERN, size);
}

void may_allocate(run *r, int may)
{
    r->may_allocate = may;
    making = may ? r : NULL;
}

static void counted_free(void *opaque, void *p)
{
    run *r = opaque;

    if (!p)
        return;
    piece *b = piece_at(p);
    const uint8_t *margin = (const uint8_t *)p + b->size;
    must(r, E5, r->may_allocate, "%zu bytes were freed outside of a call that makes or destroys an object", b->size);
    must(r, E3, all_bytes(margin, MARGIN, PATTERN), "bytes were written past the end of %zu bytes of an object",
         b->size);
    remove_piece(r, b);
}

tlc_allocator counted(run *r)
{
    return (tlc_allocator){counted_alloc, counted_free, r};
}

size_t pieces_of_objects(const run *r)
{
    size_t count = 0;

    for (const piece *b = r->pieces; b; b = b->next)
        count += b->of_object;
    return count;
}

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static uint64_t little_endian(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

uint64_t digest_of(const void *p, size_t len)
{
    const uint8_t *b = p;
    uint64_t h = len, word;

    for (; len >= 8; len -= 8, b += 8) {
        memcpy(&word, b, 8);
        h = (h ^ little_endian(word)) * UINT64_C(0x9fb21c651e98df25);
        h ^= h >> 32;
    }
    word = 0;
    if (len)
        memcpy(&word, b, len);
    return mixed(h ^ little_endian(word));
}

void digest(run *r, digest_kind kind, uint64_t a, uint64_t b, const void *p, size_t len)
{
    uint64_t *all = kind == OF_RESULT ? &r->results : &r->digest;

    *all += mixed(digest_of(p, len) ^ mixed(mixed(mixed(kind) ^ a) ^ b));
}
