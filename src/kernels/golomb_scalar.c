/* SPDX-License-Identifier: MIT */
#include "golomb_codes.h"

#define FORCED static inline __attribute__((TLC_FORCED)) /* so that group and signs are constants */

void tlc_golomb_skip_scalar(const tlc_golomb_codes *codes, tlc_golomb_run *lanes, const uint64_t *end)
{
    for (size_t i = 0; i < TLC_GOLOMB_LANES; i++)
        tlc_golomb_skip_one(codes, &lanes[i], end[i]);
}

/* Reads `group` codes, with top = 63 - quotient, because x86 finds the highest bit. *next is the least index that the
 * next position can have, plus 64 * 2^b + 2^b - 1. Returns 0 if the codes have more than 56 bits. */
FORCED int read_group(tlc_golomb_source *from, unsigned b, unsigned group, unsigned signs, uint64_t *next,
                      size_t *index, uint8_t *negative)
{
    const unsigned least = 1 + b + signs;
    uint64_t word = from->word, at = *next;
    unsigned bits = group * (63 + least);

    for (unsigned i = 0; i < group; i++) {
        if (__builtin_expect(!word, 0))
            return 0;
        unsigned top = 63 ^ (unsigned)__builtin_clzll(word);
        uint64_t low = word >> ((top - b - signs) & 63);
        word <<= (least - 1 - top) & 63;
        bits -= top;
        at -= ((uint64_t)top << b) + (low >> signs);
        index[i] = (size_t)at;
        at += (uint64_t)65 << b;
        if (signs)
            negative[i] = (uint8_t)(~low & 1);
    }
    if (__builtin_expect(bits > 56, 0))
        return 0;
    from->word = word;
    from->valid -= bits;
    *next = at;
    return 1;
}

FORCED size_t read_groups(const tlc_golomb_codes *c, tlc_golomb_run *run, unsigned group, unsigned signs, size_t *index,
                          uint8_t *negative, size_t cap)
{
    const uint64_t ahead = ((uint64_t)65 << c->b) - 1;
    const uint8_t *end = c->bytes + c->size;
    tlc_golomb_source from = tlc_golomb_source_at(c->bytes, run->bit);
    uint64_t next = run->next + ahead;
    size_t count = 0;

    while (cap - count >= group && end - from.from >= 8) {
        tlc_golomb_refill(&from);
        if (!read_group(&from, c->b, group, signs, &next, index + count, signs ? negative + count : NULL))
            break;
        count += group;
    }
    *run = (tlc_golomb_run){(uint64_t)(from.from - c->bytes) * 8 - from.valid, run->count + count, next - ahead};
    return count;
}

size_t tlc_golomb_read_scalar(const tlc_golomb_codes *c, tlc_golomb_run *run, size_t *index, uint8_t *negative,
                              size_t cap)
{
    if (tlc_golomb_group(c) == 2)
        return c->signs ? read_groups(c, run, 2, 1, index, negative, cap) : read_groups(c, run, 2, 0, index, NULL, cap);
    return c->signs ? read_groups(c, run, 4, 1, index, negative, cap) : read_groups(c, run, 4, 0, index, NULL, cap);
}
