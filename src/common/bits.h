/* SPDX-License-Identifier: MIT
 *
 * Bits in bytes, the most significant bit of a byte first.
 */
#ifndef TLC_BITS_H
#define TLC_BITS_H

#include "float_rules.h"

/* 8 bytes as a number, most significant bit first. */
static inline uint64_t tlc_big_endian(uint64_t word)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

typedef struct tlc_bit_writer {
    uint8_t *at, *end;
    uint64_t bits; /* the lowest `used` bits are not stored yet; the bits above them are */
    unsigned used; /* fewer than 8 between calls */
} tlc_bit_writer;

/* Stores the whole bytes of the 0..64 bits. There is room for 8 bytes, and what follows the bits is undefined. */
static inline void tlc_bits_flush(tlc_bit_writer *w)
{
    uint64_t word = tlc_big_endian(w->bits << ((64 - w->used) & 63));

    memcpy(w->at, &word, sizeof word);
    w->at += w->used / 8;
    w->used %= 8;
}

/* count <= 57. Returns 0 if there is no room. */
static inline int tlc_bits_put(tlc_bit_writer *w, uint64_t code, unsigned count)
{
    w->bits = w->bits << count | code;
    w->used += count;
    if (w->end - w->at >= 8) {
        tlc_bits_flush(w);
        return 1;
    }
    for (; w->used >= 8; w->used -= 8) {
        if (w->at == w->end)
            return 0;
        *w->at++ = (uint8_t)(w->bits >> (w->used - 8));
    }
    return 1;
}

/* Fills the last byte with 0 bits. Returns 0 if there is no room. */
static inline int tlc_bits_end(tlc_bit_writer *w)
{
    return !w->used || tlc_bits_put(w, 0, 8 - w->used);
}

typedef struct tlc_bit_reader {
    const uint8_t *bytes;
    size_t size;  /* bytes */
    uint64_t bit; /* the next one */
} tlc_bit_reader;

/* 57 bits or more of `size` bytes, from `bit` on, the first of them in the highest bit. 0 bits follow the bytes. */
static inline uint64_t tlc_bits_at(const uint8_t *bytes, size_t size, uint64_t bit)
{
    const size_t byte = (size_t)(bit / 8);
    uint64_t word = 0;

    if (size >= 8 && byte <= size - 8) {
        memcpy(&word, bytes + byte, sizeof word);
        return tlc_big_endian(word) << bit % 8;
    }
    if (size >= 8 && byte < size) {
        memcpy(&word, bytes + size - 8, sizeof word);
        return tlc_big_endian(word) << 8 * (byte - (size - 8)) << bit % 8;
    }
    for (size_t i = byte; i < byte + 8; i++)
        word = word << 8 | (i < size ? bytes[i] : 0);
    return word << bit % 8;
}

static inline uint64_t tlc_bits_window(const tlc_bit_reader *r)
{
    return tlc_bits_at(r->bytes, r->size, r->bit);
}

/* Was all read, except the 0 bits that fill the last byte? */
static inline int tlc_bits_ended(const tlc_bit_reader *r)
{
    const uint64_t bits = (uint64_t)r->size * 8;

    return r->bit <= bits && bits - r->bit < 8 && !tlc_bits_window(r);
}
#endif
