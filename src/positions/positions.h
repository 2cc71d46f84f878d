/* SPDX-License-Identifier: MIT
 *
 * A code of positions: which of n values are members of a set and, where signs are coded, which of them are negative.
 * Behind the stream of positions a payload may hold a number for each member.
 *
 * A mask has a bit for each value, bit i % 64 of word i / 64; bits from n on are 0.
 */
#ifndef TLC_POSITIONS_H
#define TLC_POSITIONS_H

#include "../kernels/kernels.h"
#include "golomb.h"

enum {
    TLC_BATCH = 256,    /* positions that are read at a time, */
    TLC_MASK_WORDS = 16 /* or words of a mask */
};

/* What is to be coded. */
typedef struct tlc_members {
    const uint64_t *mask, *negative; /* negative: NULL without signs */
    uint64_t n, k;                   /* values; members */
} tlc_members;

/* What a reader must know. */
typedef struct tlc_positions_format {
    const tlc_kernels *k;
    uint64_t n;
    int has_signs;
    size_t value_size; /* bytes behind the stream for each member */
} tlc_positions_format;

/* The fields are the implementation's, but for k and as_masks. */
typedef struct tlc_positions_reader {
    uint64_t k;   /* members */
    int as_masks; /* batches are masks, else positions */
    union {
        struct {
            tlc_golomb_reader golomb;
            tlc_golomb_masks golomb_masks;
        };
        struct {
            const uint8_t *bitmap;
            uint64_t left; /* values */
        };
    };
} tlc_positions_reader;

typedef struct tlc_positions_batch {
    size_t count; /* of positions; of words, at most TLC_MASK_WORDS, which the caller sets */
    union {
        struct {
            size_t index[TLC_BATCH];     /* in rising order */
            uint8_t negative[TLC_BATCH]; /* 0 or 1; not set without signs */
        };
        uint64_t mask[TLC_MASK_WORDS];
    };
} tlc_positions_batch;

typedef enum tlc_trust {
    TLC_CHECK,  /* any bytes: check them all */
    TLC_CHECKED /* they have passed this check */
} tlc_trust;

typedef struct tlc_positions {
    int whole; /* encode takes all members at once; else it also takes a part of the mask, and parts are joined */
    /* Largest stream, in bytes, of at most so many members of n values; UINT64_MAX on overflow. */
    uint64_t (*bound)(uint64_t n, uint64_t members_max, int has_signs);
    /* Writes the stream and returns its length, or 0 if that exceeds cap; all of dst .. dst + cap may be overwritten. */
    size_t (*encode)(const tlc_members *members, uint8_t *dst, size_t cap);
    /* Opens a stream and returns its length, or 0 if src is not a stream with a value for each member behind it. */
    size_t (*open)(tlc_positions_reader *r, const tlc_positions_format *format, const uint8_t *src, size_t len,
                   tlc_trust trust);
    /* The next batch. Returns 0 if there are no more positions. */
    int (*read)(tlc_positions_reader *r, tlc_positions_batch *batch);
} tlc_positions;

extern const tlc_positions tlc_positions_golomb, tlc_positions_bitmap;

/* Are the bits beyond n values 0, where value i has bit i % 8 of byte i / 8? */
static inline int tlc_bits_padding(const uint8_t *bits, uint64_t n)
{
    return n % 8 == 0 || bits[n / 8] >> n % 8 == 0;
}
#endif
