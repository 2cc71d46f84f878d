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

#include <stddef.h>
#include <stdint.h>

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
#endif
