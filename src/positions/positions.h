/* SPDX-License-Identifier: MIT
 *
 * How positions become bytes: which of n values are members and, if there are signs, which of them are negative. After
 * the positions a payload may have a value for each member.
 *
 * A mask has a bit for each value: bit i % 64 of word i / 64. Bits from n on are 0.
 */
#ifndef TLC_POSITIONS_H
#define TLC_POSITIONS_H

#include "../common/sizes.h"
#include "../kernels/kernels.h"
#include "golomb.h"

enum {
    TLC_BATCH = 256,    /* positions in a batch */
    TLC_MASK_WORDS = 16 /* words of a mask in a batch */
};

/* The members of a set. */
typedef struct tlc_members {
    const uint64_t *mask, *negative; /* negative: NULL without signs */
    uint64_t n, k;                   /* values; members */
} tlc_members;

/* What a reader needs to know. */
typedef struct tlc_positions_format {
    const tlc_kernels *k;
    uint64_t n;
    int has_signs;
    unsigned value_bits; /* after the positions, for each member; 0 bits fill the last byte */
    int in_parts;        /* maybe not all positions are read, or not from the first on */
} tlc_positions_format;

/* The bytes of the values of k members. */
static inline uint64_t tlc_values_size(unsigned value_bits, uint64_t k)
{
    if (!value_bits)
        return 0;
    return value_bits < 8 ? tlc_ceil_div(k, 8 / value_bits) : tlc_product(k, value_bits / 8);
}

/* Only k, as_masks and place are for the caller. */
typedef struct tlc_positions_reader {
    uint64_t k;           /* members; in parts of a bitmap maybe a few more */
    int as_masks;         /* batches are masks; if 0, positions */
    tlc_golomb_run place; /* how far it has read. A bitmap is read from value `next` on, a multiple of 64; the caller
                             adds the members that it has read to `count` */
    union {
        struct {
            tlc_golomb_reader golomb;
            tlc_golomb_masks golomb_masks;
        };
        struct {
            const tlc_kernels *kernels;
            const uint8_t *bitmap;
            uint64_t n;
        };
    };
} tlc_positions_reader;

typedef struct tlc_positions_batch {
    size_t count; /* of positions; of words for masks, which the caller sets to at most TLC_MASK_WORDS */
    union {
        struct {
            size_t index[TLC_BATCH];     /* in rising order */
            uint8_t negative[TLC_BATCH]; /* 0 or 1; not set without signs */
        };
        uint64_t mask[TLC_MASK_WORDS];
    };
} tlc_positions_batch;

typedef enum tlc_trust {
    TLC_CHECK,  /* any bytes, all of which are checked */
    TLC_CHECKED /* bytes that have passed this check */
} tlc_trust;

typedef struct tlc_positions {
    int whole; /* encode takes all members at once. If 0, parts of the mask can be encoded one after the other */
    /* The largest length in bytes of at most members_max positions of n values; UINT64_MAX on overflow. */
    uint64_t (*bound)(uint64_t n, uint64_t members_max, int has_signs);
    /* Writes the positions and returns their length, or 0 if it exceeds cap. All of dst .. dst + cap - 1 may be
     * overwritten. */
    size_t (*encode)(const tlc_members *members, uint8_t *dst, size_t cap);
    /* Opens src and returns the length of the positions, or 0 if src is not positions and then a value for each
     * member. */
    size_t (*open)(tlc_positions_reader *r, const tlc_positions_format *format, const uint8_t *src, size_t len,
                   tlc_trust trust);
    /* The next batch of positions before end. Returns 0 if there are none left. (As masks, end does not matter.) */
    int (*read)(tlc_positions_reader *r, uint64_t end, tlc_positions_batch *batch);
    /* Goes to the first position from value `to` on, a multiple of 64. */
    void (*skip)(tlc_positions_reader *r, uint64_t to);
} tlc_positions;

extern const tlc_positions tlc_positions_golomb, tlc_positions_bitmap;

/* Are the bits beyond n values 0, where value i has bit i % 8 of byte i / 8? */
static inline int tlc_bits_padding(const uint8_t *bits, uint64_t n)
{
    return n % 8 == 0 || bits[n / 8] >> n % 8 == 0;
}
#endif
