/* SPDX-License-Identifier: MIT
 *
 * Golomb-coded positions (Sparse Binary Compression, 2018).
 *
 *   payload = k b stream
 *   k       LEB128, shortest form: how many of the n values have a code
 *   b       one byte, 0..48
 *   stream  k codes, the most significant bit of a byte first, then 0 bits up to a whole byte
 *   code    d - 1 = quotient * 2^b + remainder, where d = index - previous index and the first previous index is -1:
 *           quotient ones, a zero, b bits of remainder (most significant first), then perhaps one sign bit (1: negative)
 */
#ifndef TLC_GOLOMB_H
#define TLC_GOLOMB_H

#include "../common/float_rules.h"

#define TLC_GOLOMB_MAX 48 /* largest b */

/* 8 bytes of a stream as a number, most significant bit first. */
static inline uint64_t tlc_big_endian(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

/* b*: the least b >= 0 with (1 - k/n)^(2^b) < 0.6180339887498949, by repeated squaring in binary64, at most
 * TLC_GOLOMB_MAX; 0 for k = 0. k <= n. Runs in the default float mode. */
unsigned tlc_golomb_parameter(uint64_t k, uint64_t n);

/* The largest payload of any set of at most `most` positions among n values, in bytes, head included; exact, but
 * UINT64_MAX where it has 2^64 bits or more. signs: 0 or 1 bit each. Runs in the default float mode. */
uint64_t tlc_golomb_bound(uint64_t n, uint64_t most, int signs);

/* Head and stream of the k bits set in mask (ceil(n/64) words, least significant bit first, bits from n on are 0).
 * negative: the same layout, or NULL for no sign bits. Returns the payload's length in bytes, or 0 if it would exceed
 * cap; what lies in dst behind the payload but below dst + cap may be overwritten. Runs in the default float mode. */
size_t tlc_golomb_write(const uint64_t *mask, const uint64_t *negative, uint64_t n, uint64_t k, uint8_t *dst, size_t cap);

/* The payload's length in bytes of the k bits set in mask, as tlc_golomb_write takes it; signs: 0 or 1 bit each. Runs in the
 * default float mode. */
uint64_t tlc_golomb_length(const uint64_t *mask, uint64_t n, uint64_t k, int signs);

/* How far a stream is read. */
typedef struct tlc_golomb_run {
    uint64_t bit;   /* where the next code starts */
    uint64_t count; /* codes before it */
    uint64_t next;  /* the sum of their d: the least index that the next position can have */
} tlc_golomb_run;

typedef struct tlc_golomb_reader {
    const uint8_t *stream;
    size_t head, size; /* bytes before the stream and in it, with whatever follows the payload */
    uint64_t n, k;
    unsigned b, signs;
    tlc_golomb_run run;
} tlc_golomb_reader;

/* Reads the head of any len bytes. Returns 0 if it is not one for n values. */
int tlc_golomb_open(tlc_golomb_reader *reader, const void *src, size_t len, uint64_t n, int signs);

/* Is the stream sound to the last bit? Then *size is the payload's length in bytes, head included; len may be more.
 * Takes a fresh reader. Any bytes are safe; O(len). */
int tlc_golomb_check(const tlc_golomb_reader *reader, size_t *size);

/* The next positions, in rising order, and their signs (0 or 1; negative may be NULL without signs): at most cap.
 * Returns how many, 0 at the end. The stream must have passed the check. */
size_t tlc_golomb_next(tlc_golomb_reader *reader, size_t *index, uint8_t *negative, size_t cap);

/* golomb_dense.c: streams of short codes. */
enum { TLC_GOLOMB_WORDS = 16, TLC_GOLOMB_OPEN = 48 };

/* What a byte of a stream adds to what came before it. */
typedef struct tlc_golomb_meaning {
    uint32_t mask;    /* if b <= 2: 1 where a code ends: bit 23 or below, since at most 5 of the 8 bits come before the 0 */
    uint8_t distance; /* indices */
    uint8_t codes;    /* that end */
    uint16_t tail;    /* 256 * the bits that the last code still lacks */
} tlc_golomb_meaning;

/* Moves the run of a fresh reader, whose k codes may fit its stream, over most of them, if they are short and many. It may
 * stop within the ones of a quotient: then these are counted, and the rest is read like a code. */
void tlc_golomb_skim(const tlc_golomb_reader *reader, tlc_golomb_run *run);

/* The positions as a mask, a piece after the other. */
typedef struct tlc_golomb_masks {
    tlc_golomb_meaning meaning[3 * 256]; /* by tail and byte */
    const uint8_t *from, *end; /* what is left of the stream */
    uint64_t left;             /* codes in it */
    unsigned b;
    uint64_t tail;                                   /* of the code that *from is in */
    uint64_t open;                                   /* bits behind the bytes that are filled, */
    unsigned bits;                                   /* so many */
    size_t filled;
    uint8_t out[8 * TLC_GOLOMB_WORDS + TLC_GOLOMB_OPEN]; /* an append may pass the end by 40 bytes */
} tlc_golomb_masks;

/* Takes a fresh reader of a stream that passed the check and that nothing follows. Returns 0 if it is not one of dense
 * positions without signs: tlc_golomb_next is for those. */
int tlc_golomb_masks_begin(tlc_golomb_masks *masks, const tlc_golomb_reader *reader);
/* Bit i % 64 of word i / 64 tells whether the i-th index from the last call's end on is a position; words is at most
 * TLC_GOLOMB_WORDS. */
void tlc_golomb_masks_next(tlc_golomb_masks *masks, uint64_t *mask, size_t words);
#endif
