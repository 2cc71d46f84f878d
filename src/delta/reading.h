/* SPDX-License-Identifier: MIT
 *
 * A frame of a delta that is read: head and table, and its blocks, which are checked before any is used.
 */
#ifndef TLC_DELTA_READING_H
#define TLC_DELTA_READING_H

#include "delta_frame.h"

/* Begins a call that reads a frame for n weights of dtype, and checks what all such calls do of their arguments. */
tlc_status tlc_delta_begin_reading(tlc_delta *d, const void *src, size_t len, tlc_dtype dtype, const void *weights,
                                   size_t n, const tlc_delta_options *opt);

/* Reads the head, from byte 2 on. Returns 0 if no frame has it. end: of the bytes, or where the checksum begins. *at:
 * where the head ends. *expected: TLC_OK if n and dtype are those of the caller. */
int tlc_delta_read_head(tlc_delta *d, const uint8_t *p, size_t end, size_t *at, const size_t *n, tlc_dtype dtype,
                        tlc_status *expected);

/* Are these the first bytes of a delta that this library reads? */
tlc_status tlc_delta_check_format(tlc_delta *d, const uint8_t *p, size_t len, size_t least);

/* Reads head, table and checksum. n and dtype: those that are expected, or n NULL. is_checked: a call before has found
 * checksum and digests of blocks right. */
tlc_status tlc_delta_read_frame(tlc_delta *d, const void *src, size_t len, const size_t *n, tlc_dtype dtype,
                                int is_checked);

/* TLC_ERR_CORRUPT: the head is impossible, or the bytes are not what it says. */
tlc_status tlc_delta_is_corrupt(tlc_delta *d, const char *what);

typedef struct tlc_delta_reading {
    tlc_delta *d;
    const uint8_t *base; /* the weights first .. first + count - 1; NULL: there are none, or they are not looked at */
    uint8_t *out;        /* where the next ones go, which may be the base; NULL: nothing is written */
    size_t first, count;
    size_t block, end;             /* blocks that have some of these weights */
    size_t offset[TLC_RANGES_MAX]; /* of the first payload of a range */
    int valid[TLC_RANGES_MAX];
    uint64_t changed[TLC_RANGES_MAX], blocks[TLC_RANGES_MAX][4];
    int hashes;                      /* blocks are hashed when they were written */
    uint64_t hashed[TLC_RANGES_MAX]; /* the sums of their digests */
} tlc_delta_reading;

/* Divides the blocks of the weights first .. first + count - 1. */
void tlc_delta_take(tlc_delta_reading *r, size_t first, size_t count);

/* Checks the blocks of the weights that were taken. */
tlc_status tlc_delta_check_blocks(tlc_delta_reading *r);

/* The first block of range i. */
static inline size_t tlc_delta_range_start(const tlc_delta_reading *r, size_t i)
{
    return r->block + tlc_range_start(&r->d->ranges, i);
}

/* The entry of block b. */
static inline uint32_t tlc_delta_entry(const tlc_delta *d, size_t b)
{
    if (!(d->flags & TLC_DELTA_FLAG_LOWER))
        return tlc_load32(d->table + b * TLC_DELTA_ENTRY_SIZE);
    return b % 2 == 0 ? tlc_load32(d->table + b / 2 * TLC_DELTA_ENTRY_SIZE) : (uint32_t)TLC_DELTA_SAME << 30;
}

static inline size_t tlc_delta_payload_size(const tlc_delta *d, size_t b)
{
    return tlc_delta_entry(d, b) & TLC_DELTA_ENTRY_LENGTH;
}

/* Block b, whose payload is at `at`. Of its base only whether there is one is known. */
tlc_delta_block tlc_delta_block_at(const tlc_delta *d, size_t b, size_t at);
#endif
