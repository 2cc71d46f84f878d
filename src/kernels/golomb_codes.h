/* SPDX-License-Identifier: MIT
 *
 * What the versions of the Golomb kernels share. src/docs/format.md draws a code.
 */
#ifndef TLC_GOLOMB_CODES_H
#define TLC_GOLOMB_CODES_H

#include "kernels.h"

/* 8 bytes as a number, the first bit in the highest bit. */
static inline uint64_t tlc_golomb_load(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

/* One lane of golomb_skip. The bits are inverted: a quotient becomes leading zeros. Then come a 1 and the inverted
 * remainder, together 2^(b + 1) - 1 - remainder. */
static inline void tlc_golomb_skip_one(const tlc_golomb_codes *c, tlc_golomb_run *run, uint64_t end)
{
    const unsigned least = 1 + c->b + c->signs;
    tlc_golomb_run r = *run;

    while (r.bit < end) {
        uint64_t word = ~tlc_golomb_load(c->bytes + r.bit / 8) << r.bit % 8;
        uint64_t room = end - r.bit < TLC_GOLOMB_LONGEST ? end - r.bit : TLC_GOLOMB_LONGEST;

        if (!word)
            break;
        unsigned quotient = (unsigned)__builtin_clzll(word);
        if (quotient + least > room)
            break;
        r.next += ((uint64_t)quotient << c->b) + ((uint64_t)2 << c->b) - (word << quotient >> (63 - c->b));
        r.bit += quotient + least;
        r.count++;
    }
    *run = r;
}

/* The inverted bits of codes, from some bit on. The first `valid` of them are the highest bits of word. The next
 * ones begin at the byte `from`; some of them may be in word already. */
typedef struct tlc_golomb_source {
    const uint8_t *from;
    uint64_t word;
    unsigned valid;
} tlc_golomb_source;

static inline tlc_golomb_source tlc_golomb_source_at(const uint8_t *bytes, uint64_t bit)
{
    tlc_golomb_source s = {bytes + bit / 8, 0, (8 - bit % 8) % 8};

    if (s.valid)
        s.word = ~(uint64_t)*s.from++ << (64 - s.valid);
    return s;
}

/* After it at least 56 bits are valid. The address of the load depends only on the number of bits, so the load does not
 * wait for the decoding of the last code. */
static inline void tlc_golomb_refill(tlc_golomb_source *s)
{
    s->word |= ~tlc_golomb_load(s->from) >> s->valid;
    s->from += (63 - s->valid) / 8;
    s->valid |= 56;
}

/* The most codes that nearly always have at most 56 bits together. */
static inline unsigned tlc_golomb_group(const tlc_golomb_codes *c)
{
    return c->b + c->signs > 8 ? 2 : 4;
}
#endif
