/* SPDX-License-Identifier: MIT */
#include "golomb.h"

#include "../common/stack.h"
#include "../common/varint.h"
#include "../kernels/golomb_codes.h"

typedef tlc_golomb_run run;

enum {
    SKIPPED = 64, /* positions that are skipped at a time where a stretch is too long */
    LANE_MIN = 64 /* bits: fewer are not worth a lane */
};

int tlc_golomb_open(tlc_golomb_reader *reader, const tlc_kernels *kernels, const void *src, size_t len, uint64_t n,
                    int signs)
{
    const uint8_t *p = src;
    size_t at = 0;
    uint64_t k;

    if (!tlc_varint_read(p, len, &at, &k) || at == len || k > n || p[at] > TLC_GOLOMB_MAX)
        return 0;
    *reader = (tlc_golomb_reader){
        .kernels = kernels,
        .bytes = p + at + 1,
        .head = at + 1,
        .size = len - at - 1,
        .n = n,
        .k = k,
        .b = p[at],
        .signs = signs != 0,
    };
    return 1;
}

/* ---- one code at a time ------------------------------------------------------------------------------------------ */

/* What all codes of a payload share. */
typedef struct shape {
    const uint8_t *bytes;
    size_t size;
    unsigned b, signs, least; /* least: bits of the shortest code */
    int fast;                 /* no sum of d can overflow, and 57 bits have room for two codes or more */
} shape;

static inline shape shape_of(const tlc_golomb_reader *r)
{
    return (shape){r->bytes, r->size, r->b, r->signs, 1 + r->b + r->signs, r->b <= 20 && (uint64_t)r->size >> 32 == 0};
}

/* Reads one code of any length. Returns 0 if it does not end within the bytes, or if its position overflows. */
static int take_one(run *r, const shape *s)
{
    uint64_t bit = r->bit, quotient = 0, ones, index;

    do { /* ends at the end of the bytes at the latest, because 0 bits follow */
        ones = (uint64_t)__builtin_clzll(~tlc_bits_at(s->bytes, s->size, bit) | 0x7f); /* 57 at most */
        quotient += ones;
        bit += ones;
    } while (ones == 57);
    if ((uint64_t)s->size * 8 - bit < s->least || quotient > UINT64_MAX >> s->b)
        return 0;
    index = (quotient << s->b) + (s->b ? tlc_bits_at(s->bytes, s->size, bit + 1) >> (64 - s->b) : 0);
    if (__builtin_add_overflow(index, r->next, &index) || index == UINT64_MAX)
        return 0;
    *r = (run){bit + s->least, r->count + 1, index + 1};
    return 1;
}

/* ---- checking ---------------------------------------------------------------------------------------------------- */

#define FORCED static inline __attribute__((TLC_FORCED)) /* so that group is a constant */

/* Reads `group` codes at once. The 8 bytes at r->bit exist. Returns 0 if the codes have more than 57 bits. The bits are
 * inverted: a quotient becomes leading zeros. Then come a 1 and the inverted remainder, together 2^(b + 1) - 1 -
 * remainder.
 */
FORCED int take_group(run *r, const shape *s, unsigned group)
{
    uint64_t word = ~tlc_golomb_load(s->bytes + r->bit / 8) << r->bit % 8, rests = 0;
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

/* Reads the codes that begin before limit, which is at most the end of the bytes. */
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

/* Uses groups of the most codes that nearly always have at most 57 bits together. */
static int take_stretch(run *r, const shape *s, uint64_t limit)
{
    if (s->least <= 5)
        return take_groups(r, s, limit, 6);
    if (s->least <= 9)
        return take_groups(r, s, limit, 4);
    return take_groups(r, s, limit, 2);
}

/* The bits up to limit are cut into lanes, as take_three cuts them into parts. Returns 0 if a lane did not find the
 * beginning of a code, or met a very long one. *r is right in any case. */
static int take_lanes(run *r, const tlc_golomb_reader *reader, uint64_t limit)
{
    const shape s = shape_of(reader);
    const tlc_golomb_codes codes = {s.bytes, s.size, s.b, s.signs};
    const uint64_t each = (limit - r->bit) / TLC_GOLOMB_LANES;
    run lanes[TLC_GOLOMB_LANES], x = *r;
    uint64_t start[TLC_GOLOMB_LANES], end[TLC_GOLOMB_LANES];
    int joined = 1;

    for (size_t i = 0; i < TLC_GOLOMB_LANES; i++) {
        end[i] = r->bit + i * each;
        lanes[i] = (run){i ? end[i] - lead_of(&s) : r->bit, 0, 0};
    }
    reader->kernels->golomb_skip(&codes, lanes, end);
    for (size_t i = 0; i < TLC_GOLOMB_LANES; i++) {
        start[i] = lanes[i].bit;
        end[i] = i + 1 < TLC_GOLOMB_LANES ? end[i + 1] : limit;
        lanes[i] = (run){start[i], 0, 0};
    }
    reader->kernels->golomb_skip(&codes, lanes, end);
    for (size_t i = 0; i < TLC_GOLOMB_LANES; i++)
        if (x.bit == start[i])
            x = (run){lanes[i].bit, x.count + lanes[i].count, x.next + lanes[i].next};
        else {
            tlc_golomb_skip_one(&codes, &x, end[i]);
            joined = 0;
        }
    *r = x;
    return joined;
}

/* Is there a kernel with lanes, and are there enough bits to be worth it? */
static int has_lanes(const tlc_golomb_reader *reader, const shape *s, uint64_t bits)
{
    return reader->kernels->golomb_skip != tlc_golomb_skip_scalar && s->fast &&
           bits >= UINT64_C(2) * TLC_GOLOMB_LANES * lead_of(s);
}

/* Up to there all bits are of the codes left. `after` more bits follow. */
static inline uint64_t limit_of(const run *r, const shape *s, uint64_t k, uint64_t after)
{
    const uint64_t end = (uint64_t)s->size * 8 - after, limit = r->bit + (k - r->count) * s->least;
    return limit < end ? limit : end;
}

/* Moves *r forward over most of the codes, if they are many. At the first code, tables are faster than
 * scalar lanes, and for short codes faster than any. */
static void skip_most(run *r, const tlc_golomb_reader *reader)
{
    const shape s = shape_of(reader);

    if (!r->bit && (reader->kernels->golomb_skip == tlc_golomb_skip_scalar || s.least <= 5))
        tlc_golomb_skip_dense(reader, r);
    while (s.size >= 8) {
        uint64_t limit = limit_of(r, &s, reader->k, 64);
        if (limit < r->bit || !has_lanes(reader, &s, limit - r->bit) || !take_lanes(r, reader, limit))
            return;
    }
}

/* Where a reader's lane ends: up to there all bits are of the codes left, and 8 bytes follow. 0: it needs no lane. */
static uint64_t lane_end(const tlc_golomb_reader *r, unsigned b)
{
    const shape s = shape_of(r);

    if (r->b != b || r->size < 16 || r->k > UINT32_MAX)
        return 0;
    const uint64_t limit = limit_of(&r->run, &s, r->k, 64);
    return limit >= r->run.bit + LANE_MIN ? limit : 0;
}

/* Moves those of the readers whose b is that of the first one. Each has a lane. Returns how many it has moved. */
static size_t skip_lanes(tlc_golomb_reader *const *readers, size_t count)
{
    const tlc_golomb_reader *first = readers[0];
    const tlc_golomb_codes codes = {first->bytes, first->size, first->b, first->signs};
    run lanes[TLC_GOLOMB_LANES] = {{0}};
    uint64_t end[TLC_GOLOMB_LANES] = {0}, start[TLC_GOLOMB_LANES] = {0};
    size_t used = 0, moved = 0;

    for (size_t i = 0; i < count; i++) {
        const uint64_t limit = lane_end(readers[i], first->b);
        if (!limit)
            continue;
        start[i] = (uint64_t)(readers[i]->bytes - first->bytes) * 8;
        lanes[i] = readers[i]->run;
        lanes[i].bit += start[i];
        end[i] = start[i] + limit;
        used++;
    }
    if (used < 2)
        return 0;
    first->kernels->golomb_skip(&codes, lanes, end);
    for (size_t i = 0; i < count; i++)
        if (end[i]) {
            moved += lanes[i].count != readers[i]->run.count;
            readers[i]->run = (run){lanes[i].bit - start[i], lanes[i].count, lanes[i].next};
        }
    return moved;
}

void tlc_golomb_skip_together(tlc_golomb_reader *const *readers, size_t count)
{
    tlc_golomb_reader *left[TLC_GOLOMB_LANES];

    if (!count || readers[0]->kernels->golomb_skip == tlc_golomb_skip_scalar)
        return;
    for (size_t i = 0; i < count; i++)
        left[i] = readers[i];
    while (count) { /* each time for another b */
        const unsigned b = left[0]->b;
        size_t more = 0;
        while (b <= 20 && skip_lanes(left, count))
            ;
        for (size_t i = 0; i < count; i++)
            if (left[i]->b != b)
                left[more++] = left[i];
        count = more;
    }
}

int tlc_golomb_check(const tlc_golomb_reader *reader, size_t *size)
{
    const shape s = shape_of(reader);
    const uint64_t end = (uint64_t)s.size * 8;
    run r = reader->run;

    if (reader->k > end / s.least)
        return 0;
    skip_most(&r, reader);
    while (s.fast) {
        uint64_t limit = limit_of(&r, &s, reader->k, 0);
        if (limit - r.bit < 64)
            break;
        if (!take_stretch(&r, &s, limit))
            return 0;
    }
    while (r.count < reader->k)
        if (!take_one(&r, &s))
            return 0;
    if (r.next > reader->n || (r.bit % 8 && tlc_bits_at(s.bytes, s.size, r.bit) >> (56 + r.bit % 8)))
        return 0;
    *size = reader->head + (size_t)(r.bit / 8) + (r.bit % 8 != 0);
    return 1;
}

/* ---- giving the positions ---------------------------------------------------------------------------------------- */

static int give_one(run *r, const shape *s, size_t *index, uint8_t *negative)
{
    if (!take_one(r, s))
        return 0;
    *index = (size_t)(r->next - 1);
    if (negative)
        *negative = s->bytes[(r->bit - 1) / 8] >> (7 - (r->bit - 1) % 8) & 1;
    return 1;
}

static size_t give_some(run *r, const tlc_golomb_reader *reader, const shape *s, size_t *index, uint8_t *negative,
                        size_t cap)
{
    const tlc_golomb_codes codes = {s->bytes, s->size, s->b, s->signs};
    return s->fast ? reader->kernels->golomb_read(&codes, r, index, negative, cap) : 0;
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
        count += give_some(&reader->run, reader, &s, index + count, negative ? negative + count : NULL, cap - count);
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

static int take_bits(run *r, const tlc_golomb_reader *reader, uint64_t bits)
{
    const shape s = shape_of(reader);
    const uint64_t limit = r->bit + bits;

    if (limit + 64 <= (uint64_t)s.size * 8 && has_lanes(reader, &s, bits) && take_lanes(r, reader, limit))
        return 1;
    return r->bit >= limit || take_stretch(r, &s, limit);
}

/* A stretch of half the bits that the codes before end most likely have is skipped at once, unless it passes end: then
 * half of it is tried. */
static void skip_stretches(tlc_golomb_reader *reader, uint64_t end)
{
    const shape s = shape_of(reader);
    uint64_t bits = UINT64_MAX;

    while (s.fast && reader->run.next < end) {
        const uint64_t likely = ((end - reader->run.next) >> s.b) * s.least / 2;
        const uint64_t left = limit_of(&reader->run, &s, reader->k, 0) - reader->run.bit;
        run r = reader->run;

        bits = likely < bits ? likely : bits;
        bits = left < bits ? left : bits;
        if (bits < 64)
            return;
        if (take_bits(&r, reader, bits) && r.next <= end)
            reader->run = r;
        else
            bits /= 2;
    }
}

void tlc_golomb_skip(tlc_golomb_reader *reader, uint64_t end)
{
    uint8_t negative[SKIPPED];
    size_t index[SKIPPED];

    skip_stretches(reader, end);
    while (tlc_golomb_next_before(reader, end, index, negative, SKIPPED))
        ;
}
