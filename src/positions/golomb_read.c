/* SPDX-License-Identifier: MIT */
#include "golomb.h"

#include "../common/varint.h"

typedef tlc_golomb_run run;

int tlc_golomb_open(tlc_golomb_reader *reader, const void *src, size_t len, uint64_t n, int signs)
{
    const uint8_t *p = src;
    size_t at = 0;
    uint64_t k;

    if (!tlc_varint_read(p, len, &at, &k) || at == len || k > n || p[at] > TLC_GOLOMB_MAX)
        return 0;
    *reader = (tlc_golomb_reader){
        .stream = p + at + 1,
        .head = at + 1,
        .size = len - at - 1,
        .n = n,
        .k = k,
        .b = p[at],
        .signs = signs != 0,
    };
    return 1;
}

/* ---- one code at a time
 * ------------------------------------------------------------------------------------------- */

/* What every code of a stream shares. */
typedef struct shape {
    const uint8_t *stream;
    size_t size;
    unsigned b, signs, least; /* least: bits of the shortest code */
    int fast;                 /* no sum of d can overflow, and 57 bits have room for two codes or more */
} shape;

static inline shape shape_of(const tlc_golomb_reader *r)
{
    return (shape){r->stream, r->size, r->b, r->signs, 1 + r->b + r->signs, r->b <= 20 && (uint64_t)r->size >> 32 == 0};
}

static inline uint64_t load(const uint8_t *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof word);
    return tlc_big_endian(word);
}

/* The next 57 bits or more, the first of them in the highest bit. Behind the stream there are 0 bits. */
static uint64_t window(const shape *s, uint64_t bit)
{
    const size_t at = (size_t)(bit / 8);
    uint64_t word = 0;

    if (s->size >= 8 && at <= s->size - 8)
        return load(s->stream + at) << bit % 8;
    for (size_t i = at; i < at + 8; i++)
        word = word << 8 | (i < s->size ? s->stream[i] : 0);
    return word << bit % 8;
}

/* Reads one code of any length. Returns 0 if it does not end within the stream, or if its position overflows. */
static int take_one(run *r, const shape *s)
{
    uint64_t bit = r->bit, quotient = 0, ones, index;

    do { /* ends at the end of the stream at the latest, because 0 bits follow */
        ones = (uint64_t)__builtin_clzll(~window(s, bit) | 0x7f); /* 57 at most */
        quotient += ones;
        bit += ones;
    } while (ones == 57);
    if ((uint64_t)s->size * 8 - bit < s->least || quotient > UINT64_MAX >> s->b)
        return 0;
    index = (quotient << s->b) + (s->b ? window(s, bit + 1) >> (64 - s->b) : 0);
    if (__builtin_add_overflow(index, r->next, &index) || index == UINT64_MAX)
        return 0;
    *r = (run){bit + s->least, r->count + 1, index + 1};
    return 1;
}

/* ---- checking
 * ----------------------------------------------------------------------------------------------------- */

#define FORCED static inline __attribute__((always_inline)) /* so that group is a constant */

/* Reads `group` codes at once. The 8 bytes at r->bit exist. Returns 0 if the codes have more than 57 bits. The bits are
 * inverted: a quotient becomes leading zeros. Then come a 1 and the inverted remainder, together 2^(b + 1) - 1 -
 * remainder.
 */
FORCED int take_group(run *r, const shape *s, unsigned group)
{
    uint64_t word = ~load(s->stream + r->bit / 8) << r->bit % 8, rests = 0;
    unsigned quotients = 0, bits;

    for (unsigned i = 0; i < group; i++) {
        if (__builtin_expect(!word, 0))
            return 0;
        unsigned quotient = (unsigned)__builtin_clzll(word);
        rests += word >> ((63 - s->b - quotient) & 63); /* & 63: not undefined where it is too much, as bits then is */
        word <<= (quotient + s->least) & 63;
        quotients += quotient;
    }
    bits = quotients + group * s->least;
    if (__builtin_expect(bits > 57, 0))
        return 0;
    r->next += ((uint64_t)quotients << s->b) + group * ((uint64_t)2 << s->b) - rests;
    r->bit += bits;
    r->count += group;
    return 1;
}

FORCED int take_some(run *r, const shape *s, unsigned group)
{
    run slow; /* r may live in registers */

    if (__builtin_expect(take_group(r, s, group), 1))
        return 1;
    slow = *r;
    if (!take_one(&slow, s))
        return 0;
    *r = slow;
    return 1;
}

/* Reads the codes that begin before limit, which is at most the end of the stream. */
FORCED int take_until(run *r, const shape *s, uint64_t limit, unsigned group)
{
    run v = *r;

    while (v.bit + 57 <= limit)
        if (!take_some(&v, s, group))
            return 0;
    *r = v;
    while (r->bit < limit)
        if (!take_one(r, s))
            return 0;
    return 1;
}

/* If decoding starts at any bit, it soon meets the beginning of a code, and is right from there on. This is how many
 * bits earlier it starts. About one bit in least + 1 begins a code, and that is the chance of each wrong code to end
 * there. So after 8 * least codes it is hardly ever still wrong. */
static inline uint64_t lead_of(const shape *s)
{
    return UINT64_C(8) * s->least * s->least;
}

/* A code begins where the one before it ends, so the processor must wait. Therefore the bits up to limit are cut into
 * three parts that are decoded side by side. The second and the third start some bits earlier (lead_of). If one of them
 * did not find the beginning of a code, the part before it ends at another bit. Then it is decoded again, from that
 * bit. */
FORCED int take_three(run *r, const shape *s, uint64_t limit, unsigned group)
{
    const uint64_t third = (limit - r->bit) / 3, end_x = r->bit + third, end_y = end_x + third;
    run x = *r, y = {end_x - lead_of(s), 0, 0}, z = {end_y - lead_of(s), 0, 0};
    int good_y = take_until(&y, s, end_x, group), good_z = take_until(&z, s, end_y, group);
    const uint64_t start_y = y.bit, start_z = z.bit;

    y.count = y.next = z.count = z.next = 0;
    while (good_y & good_z && x.bit + 57 <= end_x && y.bit + 57 <= end_y && z.bit + 57 <= limit) {
        if (!take_some(&x, s, group))
            return 0;
        good_y = take_some(&y, s, group);
        good_z = take_some(&z, s, group);
    }
    if (!take_until(&x, s, end_x, group))
        return 0;
    if (good_y && start_y == x.bit && take_until(&y, s, end_y, group))
        x = (run){y.bit, x.count + y.count, x.next + y.next};
    else if (!take_until(&x, s, end_y, group))
        return 0;
    if (good_z && start_z == x.bit && take_until(&z, s, limit, group))
        x = (run){z.bit, x.count + z.count, x.next + z.next};
    else if (!take_until(&x, s, limit, group))
        return 0;
    *r = x;
    return 1;
}

FORCED int take_groups(run *r, const shape *s, uint64_t limit, unsigned group)
{
    return limit - r->bit > 12 * lead_of(s) ? take_three(r, s, limit, group) : take_until(r, s, limit, group);
}

/* Uses groups of as many codes as nearly always have at most 57 bits. */
static int take_stretch(run *r, const shape *s, uint64_t limit)
{
    if (s->least <= 5)
        return take_groups(r, s, limit, 6);
    if (s->least <= 9)
        return take_groups(r, s, limit, 4);
    return take_groups(r, s, limit, 2);
}

int tlc_golomb_check(const tlc_golomb_reader *reader, size_t *size)
{
    const shape s = shape_of(reader);
    const uint64_t end = (uint64_t)s.size * 8;
    run r = reader->run;

    if (reader->k > end / s.least)
        return 0;
    tlc_golomb_skip_dense(reader, &r);
    while (s.fast) {
        uint64_t limit = r.bit + (reader->k - r.count) * s.least; /* up to there all bits are of the codes left */
        limit = limit < end ? limit : end;
        if (limit - r.bit < 64)
            break;
        if (!take_stretch(&r, &s, limit))
            return 0;
    }
    while (r.count < reader->k)
        if (!take_one(&r, &s))
            return 0;
    if (r.next > reader->n || (r.bit % 8 && window(&s, r.bit) >> (56 + r.bit % 8)))
        return 0;
    *size = reader->head + (size_t)(r.bit / 8) + (r.bit % 8 != 0);
    return 1;
}

/* ---- giving the positions
 * ----------------------------------------------------------------------------------------- */

static int give_one(run *r, const shape *s, size_t *index, uint8_t *negative)
{
    if (!take_one(r, s))
        return 0;
    *index = (size_t)(r->next - 1);
    if (negative)
        *negative = s->stream[(r->bit - 1) / 8] >> (7 - (r->bit - 1) % 8) & 1;
    return 1;
}

/* The inverted bits of a stream, from some bit on. The first `valid` of them are the highest bits of word. The next
 * ones begin at the byte `from`; some of them may be in word already. */
typedef struct source {
    const uint8_t *from;
    uint64_t word;
    unsigned valid;
} source;

static inline source source_at(const shape *s, uint64_t bit)
{
    source from = {s->stream + bit / 8, 0, (8 - bit % 8) % 8};

    if (from.valid)
        from.word = ~(uint64_t)*from.from++ << (64 - from.valid);
    return from;
}

/* After it at least 56 bits are valid. The address of the load depends only on the number of bits, so the load does not
 * wait for the decoding of the last code. */
static inline void refill(source *from)
{
    from->word |= ~load(from->from) >> from->valid;
    from->from += (63 - from->valid) / 8;
    from->valid |= 56;
}

/* Reads `group` codes like take_group, with top = 63 - quotient, because x86 finds the highest bit. *next is the least
 * index that the next position can have, plus 64 * 2^b + 2^b - 1. Returns 0 if the codes have more than 56 bits. */
FORCED int give_group(source *from, const shape *s, unsigned group, int signs, uint64_t *next, size_t *index,
                      uint8_t *negative)
{
    uint64_t word = from->word, at = *next;
    unsigned bits = group * (63 + s->least);

    for (unsigned i = 0; i < group; i++) {
        if (__builtin_expect(!word, 0))
            return 0;
        unsigned top = 63 ^ (unsigned)__builtin_clzll(word);
        uint64_t low = word >> ((top - s->b - (unsigned)signs) & 63);
        word <<= (s->least - 1 - top) & 63;
        bits -= top;
        at -= ((uint64_t)top << s->b) + (low >> signs);
        index[i] = (size_t)at;
        at += (uint64_t)65 << s->b;
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

/* Stops before a group with too many bits, if fewer codes than a group are left, and near the end of the stream. */
FORCED size_t give_groups(run *r, const shape *s, unsigned group, int signs, size_t *index, uint8_t *negative,
                          size_t cap)
{
    source from = source_at(s, r->bit);
    uint64_t next = r->next + ((uint64_t)65 << s->b) - 1;
    size_t count = 0;

    while (cap - count >= group && s->stream + s->size - from.from >= 8) {
        refill(&from);
        if (!give_group(&from, s, group, signs, &next, index + count, signs ? negative + count : NULL))
            break;
        count += group;
    }
    *r = (run){(uint64_t)(from.from - s->stream) * 8 - from.valid, r->count + count, next + 1 - ((uint64_t)65 << s->b)};
    return count;
}

static size_t give_some(run *r, const shape *s, size_t *index, uint8_t *negative, size_t cap)
{
    if (!s->fast)
        return 0;
    if (s->least > 9)
        return negative ? give_groups(r, s, 2, 1, index, negative, cap) : give_groups(r, s, 2, 0, index, NULL, cap);
    return negative ? give_groups(r, s, 4, 1, index, negative, cap) : give_groups(r, s, 4, 0, index, NULL, cap);
}

size_t tlc_golomb_next(tlc_golomb_reader *reader, size_t *index, uint8_t *negative, size_t cap)
{
    const shape s = shape_of(reader);
    const uint64_t left = reader->k - reader->run.count;
    size_t count = 0;

    cap = left < cap ? (size_t)left : cap;
    if (!s.signs)
        negative = NULL;
    while (count < cap) {
        count += give_some(&reader->run, &s, index + count, negative ? negative + count : NULL, cap - count);
        if (count == cap || !give_one(&reader->run, &s, index + count, negative ? negative + count : NULL))
            break;
        count++;
    }
    return count;
}

/* A mean distance is 1.4 * 2^b. So the next (end - next) / 2^(b + 1) positions seldom pass the end. If they do, those
 * before it are read again. */
size_t tlc_golomb_next_before(tlc_golomb_reader *reader, uint64_t end, size_t *index, uint8_t *negative, size_t cap)
{
    size_t count = 0, got, good;

    if (end >= reader->n)
        return tlc_golomb_next(reader, index, negative, cap);
    while (count < cap && reader->run.next < end) {
        const run before = reader->run;
        uint64_t some = (end - before.next) >> (reader->b + 1);
        uint8_t *sign = negative ? negative + count : NULL;
        some = some < cap - count ? some : cap - count;
        got = good = tlc_golomb_next(reader, index + count, sign, some ? (size_t)some : 1);
        while (good && index[count + good - 1] >= end)
            good--;
        if (good < got) {
            reader->run = before;
            (void)tlc_golomb_next(reader, index + count, sign, good);
        }
        count += good;
        if (!good || good < got)
            break;
    }
    return count;
}
