/* SPDX-License-Identifier: MIT
 *
 * Golomb-coded positions (Sparse Binary Compression, 2018). A payload has a head {k, b} and k codes;
 * src/docs/format.md draws it.
 */
#ifndef TLC_GOLOMB_H
#define TLC_GOLOMB_H

#include "../common/bits.h"
#include "../kernels/kernels.h"

#define TLC_GOLOMB_MAX 48 /* largest b */

/* The best b: the least b >= 0 with (1 - k/n)^(2^b) < 0.6180339887498949, by repeated squaring in binary64, but at most
 * TLC_GOLOMB_MAX; 0 for k = 0. k <= n. Needs the default float mode. */
unsigned tlc_golomb_parameter(uint64_t k, uint64_t n);

/* The bytes of the largest payload of at most members_max positions of n values, with the head. It is exact, but
 * UINT64_MAX if the payload has 2^64 bits or more. signs: 0 or 1 bit each. Needs the default float mode. */
uint64_t tlc_golomb_bound(uint64_t n, uint64_t members_max, int signs);

/* Writes the payload of the k positions whose bits in mask are 1. mask: ceil(n/64) words, least significant bit first;
 * bits from n on are 0. negative: the same for negative values, or NULL for no signs. Returns the length in bytes, or 0
 * if it would exceed cap. All of dst .. dst + cap - 1 may be overwritten. Needs the default float mode. */
size_t tlc_golomb_write(const uint64_t *mask, const uint64_t *negative, uint64_t n, uint64_t k, uint8_t *dst,
                        size_t cap);

/* The same of a list: the indices before each position that are none, from the position before it; with signs twice as
 * much, and 1 if the value is negative. There are at most 2^31 indices. */
size_t tlc_golomb_write_gaps(const uint32_t *gaps, uint64_t k, uint64_t n, int signs, uint8_t *dst, size_t cap);

/* The length that tlc_golomb_write returns if cap is large enough. signs: 0 or 1 bit each. Needs the default float
 * mode. */
uint64_t tlc_golomb_length(const uint64_t *mask, uint64_t n, uint64_t k, int signs);

typedef struct tlc_golomb_reader {
    const tlc_kernels *kernels;
    const uint8_t *bytes;
    size_t head, size; /* bytes before the codes; bytes from there on, with all that follows the payload */
    uint64_t n, k;
    unsigned b, signs;
    tlc_golomb_run run;
} tlc_golomb_reader;

/* Reads the head, in any len bytes. Returns 0 if it is not a head for n values. */
int tlc_golomb_open(tlc_golomb_reader *reader, const tlc_kernels *kernels, const void *src, size_t len, uint64_t n,
                    int signs);

/* Moves readers that were just opened, at most TLC_GOLOMB_LANES, forward over most of their codes, side by side where
 * there is a kernel for it. Their codes lie in the same memory, and have kernels and signs in common. */
void tlc_golomb_skip_together(tlc_golomb_reader *const *readers, size_t count);

/* Are the codes valid, to the last bit? *size: the bytes of the payload with its head; other bytes may follow. The
 * reader was just opened, or moved by tlc_golomb_skip_together. For any bytes; O(len). */
int tlc_golomb_check(const tlc_golomb_reader *reader, size_t *size);

/* Reads at most cap positions, in rising order, and their signs (0 or 1; negative may be NULL without signs). Returns
 * how many; 0 at the end. The codes have passed the check. */
size_t tlc_golomb_next(tlc_golomb_reader *reader, size_t *index, uint8_t *negative, size_t cap);

/* The same for positions before end. Returns 0 if there are none left. */
size_t tlc_golomb_next_before(tlc_golomb_reader *reader, uint64_t end, size_t *index, uint8_t *negative, size_t cap);

/* Goes to the first position from end on. The codes have passed the check. */
void tlc_golomb_skip(tlc_golomb_reader *reader, uint64_t end);

/* golomb_dense.c: many short codes. */
enum { TLC_GOLOMB_WORDS = 16, TLC_GOLOMB_OPEN = 48 };

/* What a byte of codes means. */
typedef struct tlc_golomb_byte {
    uint32_t mask;    /* if b <= 2: bit i is 1 if a code ends at the i-th index. Bits above 23 are 0, because for b = 2
                         at most 5 ones of a quotient come before the end of a code */
    uint8_t distance; /* how many indices it goes forward */
    uint8_t codes;    /* how many codes end in it */
    uint16_t tail;    /* 256 * the bits that the last code still needs */
} tlc_golomb_byte;

/* Moves *run forward over most of the codes, if they are short and many. The reader was just opened, and its k codes
 * may fit the bytes. *run may stop within the ones of a quotient. These are then counted, and the rest is read like a
 * code. */
void tlc_golomb_skip_dense(const tlc_golomb_reader *reader, tlc_golomb_run *run);

/* Reads positions as a mask, some words at a time. */
typedef struct tlc_golomb_masks {
    tlc_golomb_byte meaning[3 * 256]; /* by tail and byte */
    const uint8_t *from, *end;        /* the bytes that are not read yet */
    uint64_t left;                    /* codes in it */
    unsigned b;
    uint64_t tail;                                       /* bits of *from that belong to the code before it */
    uint64_t open;                                       /* the bits of the mask after the filled bytes */
    unsigned bits;                                       /* how many these are */
    size_t filled;                                       /* bytes of out */
    uint8_t out[8 * TLC_GOLOMB_WORDS + TLC_GOLOMB_OPEN]; /* a store may pass the end by 40 bytes */
} tlc_golomb_masks;

/* Takes a reader that was just opened, of codes that have passed the check and end with the payload. Returns 0 if
 * the positions are not dense, or have signs: use tlc_golomb_next for these. */
int tlc_golomb_masks_begin(tlc_golomb_masks *masks, const tlc_golomb_reader *reader);
/* Writes the next words of the mask, at most TLC_GOLOMB_WORDS. Bit i % 64 of word i / 64 is 1 if the i-th index from
 * the end of the last call on is a position. */
void tlc_golomb_masks_next(tlc_golomb_masks *masks, uint64_t *mask, size_t words);
#endif
