/* SPDX-License-Identifier: MIT
 *
 * Reads many short codes, a byte at a time. A byte may begin with the last bits of a code: those of its remainder
 * and sign. Their number is the tail. What a byte means depends only on the tail and on its bits, so a table can tell
 * it. A code may begin in one byte and end in the next, because the distance is a sum: each one of a quotient adds 2^b,
 * each one of a remainder adds its weight, and the end of a code adds 1.
 */
#include "golomb.h"

#include "../common/bytes.h"
#include "../common/stack.h"

#define FORCED static inline __attribute__((TLC_FORCED))

enum {
    STATES = 6, /* the values of a tail: 0 to b + sign, with b <= 4 */
    LANES = 4,
    BATCH = 16, /* bytes whose entries are added before the sum is split into its fields */
    LEAD = 64   /* bytes, some 90 codes. A wrong code has about one chance in 7 to be the last wrong one */
};

/* ---- what a byte means ------------------------------------------------------------------------------------------- */

typedef tlc_golomb_byte meaning;

/* m and then one more bit. The mask is right only for b <= 2 without signs. */
static meaning after_bit(meaning m, unsigned bit, unsigned b, unsigned signs)
{
    unsigned tail = m.tail / 256, distance = m.distance;

    if (!tail && bit) {
        m.distance = (uint8_t)(distance + (1u << b));
        return m;
    }
    tail = tail ? tail - 1 : b + signs;
    if (m.tail && tail >= signs)
        distance += bit << (tail - signs);
    if (!tail) {
        m.mask |= (uint32_t)1 << distance; /* at most 15, because m has at most half a byte */
        m.codes++;
        distance++;
    }
    m.distance = (uint8_t)distance;
    m.tail = (uint16_t)(256 * tail);
    return m;
}

/* m and then next. */
static meaning after(meaning m, meaning next)
{
    m.mask |= m.distance < 32 ? next.mask << m.distance : 0;
    m.distance = (uint8_t)(m.distance + next.distance);
    m.codes = (uint8_t)(m.codes + next.codes);
    m.tail = next.tail;
    return m;
}

/* Half bytes come first, because joining two of them is cheaper than eight single bits. */
static void tabulate_halves(meaning half[STATES][16], unsigned b, unsigned signs)
{
    for (unsigned tail = 0; tail <= b + signs; tail++)
        for (unsigned bits = 0; bits < 16; bits++) {
            meaning m = {.tail = (uint16_t)(256 * tail)};
            for (unsigned i = 4; i-- > 0;)
                m = after_bit(m, bits >> i & 1, b, signs);
            half[tail][bits] = m;
        }
}

FORCED meaning of_byte(meaning half[STATES][16], unsigned tail, unsigned byte)
{
    meaning high = half[tail][byte >> 4];
    return after(high, half[high.tail / 256][byte & 15]);
}

/* ---- counting codes, and the sum of their distances -------------------------------------------------------------- */

/* The meanings without masks. Bits 0..15: the tail. 16..23: how many codes end. 24..31: the distance, at most about
 * 128. */
typedef struct sums {
    uint32_t entry[256 * STATES];
} sums;

static void tabulate_sums(sums *table, unsigned b, unsigned signs)
{
    meaning half[STATES][16];

    tabulate_halves(half, b, signs);
    for (unsigned i = 0; i < 256 * (1 + b + signs); i++) {
        meaning m = of_byte(half, i / 256, i % 256);
        table->entry[i] = (uint32_t)m.distance << 24 | (uint32_t)m.codes << 16 | m.tail;
    }
}

typedef struct lane {
    const uint8_t *from;
    uint64_t entry; /* the last one, for its tail */
    uint64_t codes, sum;
} lane;

/* Reads batches * BATCH bytes of each of count lanes. An entry depends on the one before it. With several lanes the
 * processor has other work while it waits. */
FORCED void walk(const sums *table, lane *lanes, unsigned count, size_t batches)
{
    lane v[LANES];

    memcpy(v, lanes, count * sizeof *v);
    for (; batches; batches--) {
        uint64_t acc[LANES] = {0}; /* sums of whole entries: the lower fields do not overflow */

        for (unsigned j = 0; j < BATCH; j++)
            for (unsigned i = 0; i < count; i++) {
                v[i].entry = table->entry[(v[i].entry & 0xffff) + v[i].from[j]];
                acc[i] += v[i].entry;
            }
        for (unsigned i = 0; i < count; i++) {
            v[i].from += BATCH;
            v[i].codes += acc[i] >> 16 & 0xff;
            v[i].sum += acc[i] >> 24;
        }
    }
    memcpy(lanes, v, count * sizeof *v);
}

/* Reads batches from *x on. The tail at the start of a lane is found by decoding from LEAD bytes earlier, with an
 * assumed tail of 0, which is soon right. If it was wrong, the lane is read again. The first lane starts at *x. */
static void walk_lanes(const sums *table, lane *x, size_t batches)
{
    const size_t each = batches / LANES;
    uint64_t start[LANES] = {0};
    lane v[LANES] = {*x};

    for (unsigned i = 1; i < LANES; i++) {
        v[i] = (lane){.from = x->from + i * each * BATCH - LEAD};
        walk(table, &v[i], 1, LEAD / BATCH);
        start[i] = v[i].entry & 0xffff;
        v[i].codes = v[i].sum = 0;
    }
    walk(table, v, LANES, each);
    *x = v[0];
    for (unsigned i = 1; i < LANES; i++)
        if ((x->entry & 0xffff) == start[i])
            *x = (lane){v[i].from, v[i].entry, x->codes + v[i].codes, x->sum + v[i].sum};
        else
            walk(table, x, 1, each);
    walk(table, x, 1, batches % LANES);
}

enum { BATCHES_MIN = 256 }; /* fewer are not worth the table */

/* How many batches surely belong to the codes left. One of them may have begun; 8 bytes remain for its tail. */
static size_t batches_left(const tlc_golomb_reader *r, const lane *x)
{
    size_t bytes = r->size - (size_t)(x->from - r->bytes);
    uint64_t needed = (r->k - x->codes) * (1 + r->b + r->signs) / 8;

    if (bytes < 16 || needed < 16)
        return 0;
    return (needed < bytes ? (size_t)needed - 8 : bytes - 8) / BATCH;
}

void tlc_golomb_skip_dense(const tlc_golomb_reader *r, tlc_golomb_run *run)
{
    lane x = {.from = r->bytes};
    uint64_t tail, bits;
    sums table;

    if (r->b > 4 || batches_left(r, &x) < BATCHES_MIN)
        return;
    tabulate_sums(&table, r->b, r->signs);
    for (size_t batches; (batches = batches_left(r, &x)) >= LANES * 2 * LEAD / BATCH;)
        walk_lanes(&table, &x, batches);
    tail = x.entry >> 8 & 0xff;
    bits = (uint64_t)*x.from >> (8 - tail); /* 5 at most */
    *run = (tlc_golomb_run){
        .bit = (uint64_t)(x.from - r->bytes) * 8 + tail,
        .count = x.codes + (tail > 0),
        .next = x.sum + (tail > 0) + (bits >> r->signs),
    };
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

enum { POSITIONS_MIN = 512 }; /* fewer are not worth the table */

int tlc_golomb_masks_begin(tlc_golomb_masks *m, const tlc_golomb_reader *r)
{
    meaning half[STATES][16];

    if (r->b > 2 || r->signs || r->k < POSITIONS_MIN)
        return 0;
    tabulate_halves(half, r->b, 0);
    for (unsigned i = 0; i < 256 * (1 + r->b); i++)
        m->meaning[i] = of_byte(half, i / 256, i % 256);
    m->from = r->bytes;
    m->end = r->bytes + r->size;
    m->left = r->k;
    m->b = r->b;
    m->tail = 0;
    m->open = 0;
    m->filled = m->bits = 0;
    return 1;
}

/* Reverses the bits of each byte, so that the first bit to be read is the lowest. */
static inline uint64_t reversed(uint64_t x)
{
    x = (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    x = (x >> 2 & UINT64_C(0x3333333333333333)) | (x & UINT64_C(0x3333333333333333)) << 2;
    return (x >> 1 & UINT64_C(0x5555555555555555)) | (x & UINT64_C(0x5555555555555555)) << 1;
}

/* For b = 1: which bits are remainders. *tail: is the first bit a remainder? It becomes: is the bit after the last one?
 * In a run of zeros the first one ends a quotient, the second is its remainder, the third ends the next quotient, and
 * so on. So remainders have an odd distance from the start of their run; they are in it, or the first bit after it.
 * The addition of the starts at odd bits to the zeros carries through those runs and does not change the others, which
 * separates the two kinds. (simdjson finds escaped characters in this way.) */
static inline uint64_t remainders(uint64_t word, uint64_t *tail)
{
    const uint64_t even = UINT64_C(0x5555555555555555);
    uint64_t zeros = ~reversed(word) & ~*tail, after = zeros << 1 | *tail, starts = zeros & ~even & ~after, ends;

    *tail = __builtin_add_overflow(starts, zeros, &ends);
    return (even ^ ends << 1) & after;
}

typedef struct mask_writer {
    uint8_t *to;   /* where the next byte of the mask goes */
    uint64_t open; /* bits of the mask from there on */
    unsigned bits; /* how many are known, 0..7; the others are 0 */
    uint64_t codes;
} mask_writer;

/* Appends the masks of two bytes: at most 7 + 32 + 32 bits, but no 1 above bit 7 + 32 + 23. */
FORCED void append(mask_writer *s, const meaning *a, const meaning *b)
{
    unsigned first = a->distance, bits = s->bits + (first + b->distance);

    s->open |= (a->mask | (uint64_t)b->mask << first) << s->bits;
    tlc_store64(s->to, s->open);
    s->to += bits / 8;
    s->open = bits < 64 ? s->open >> (bits & 56) : 0;
    s->bits = bits % 8;
    s->codes += (unsigned)a->codes + b->codes;
}

/* For b = 0: the codes are the inverted mask. */
FORCED void append_inverse(mask_writer *s, uint64_t word)
{
    tlc_store64(s->to, ~reversed(word));
    s->to += 8;
    s->codes += tlc_count_ones(~word);
}

/* For b = 1. Which bytes begin with a remainder is known before, so no byte waits for the one before it. */
FORCED void append_word(mask_writer *s, const meaning *table, uint64_t word, uint64_t *tail)
{
    const uint64_t bytes = UINT64_C(0x00ff00ff00ff00ff), ones = UINT64_C(0x0001000100010001);
    uint64_t tails = remainders(word, tail), even = (word & bytes) | (tails & ones) << 8;
    uint64_t odd = (word >> 8 & bytes) | (tails & ones << 8);

    for (unsigned i = 0; i < 64; i += 16)
        append(s, &table[even >> i & 0xffff], &table[odd >> i & 0xffff]);
}

/* For any b. Each byte waits for the tail of the one before it. */
FORCED void append_chain(mask_writer *s, const meaning *table, uint64_t word, uint64_t *tail)
{
    for (unsigned i = 0; i < 64; i += 16) {
        const meaning *a = &table[*tail + (word >> i & 0xff)], *b = &table[a->tail + (word >> i >> 8 & 0xff)];

        *tail = b->tail;
        append(s, a, b);
    }
}

/* The last bytes of the codes, at most 8, and then ones, which end no code. */
static uint64_t last_word(tlc_golomb_masks *m)
{
    uint8_t last[8];

    memset(last, 0xff, sizeof last);
    memcpy(last, m->from, (size_t)(m->end - m->from));
    m->from = m->end;
    return tlc_load64(last);
}

/* Removes the last `more` ones from the mask: 0 bits that fill the last byte look like codes. */
static void take_back(mask_writer *s, uint64_t more)
{
    uint8_t *at = s->to + 7;

    for (tlc_store64(s->to, s->open); more; more--) {
        while (!*at)
            at--;
        *at = (uint8_t)(*at & ~(0x80u >> (__builtin_clz(*at) - 24)));
    }
    s->open = tlc_load64(s->to);
}

/* b is a constant in each call. */
FORCED void append_some(mask_writer *s, const meaning *table, uint64_t word, unsigned b, uint64_t *tail)
{
    if (b == 0)
        append_inverse(s, word);
    else if (b == 1)
        append_word(s, table, word, tail);
    else
        append_chain(s, table, word, tail);
}

/* Fills at least `bytes` bytes of m->out. */
FORCED void fill(tlc_golomb_masks *m, size_t bytes, unsigned b)
{
    mask_writer s = {m->out + m->filled, m->open, m->bits, 0};
    const uint8_t *end = m->out + bytes;
    uint64_t tail = m->tail;

    while (s.to < end && m->end - m->from > 8) {
        append_some(&s, m->meaning, tlc_load64(m->from), b, &tail);
        m->from += 8;
    }
    m->left -= s.codes;
    if (s.to < end && m->from < m->end) {
        s.codes = 0;
        append_some(&s, m->meaning, last_word(m), b, &tail);
        take_back(&s, s.codes - m->left);
        m->left = 0;
    }
    m->tail = tail;
    m->open = s.open;
    m->bits = s.bits;
    m->filled = (size_t)(s.to - m->out);
    if (s.to < end) { /* the codes have ended: the open bits, then 0 bits */
        tlc_store64(s.to, s.open);
        memset(s.to + 8, 0, sizeof m->out - m->filled - 8);
        m->open = m->bits = 0;
        m->filled = bytes;
    }
}

void tlc_golomb_masks_next(tlc_golomb_masks *m, uint64_t *mask, size_t words)
{
    size_t bytes = words * sizeof *mask;

    if (m->b == 0)
        fill(m, bytes, 0);
    else if (m->b == 1)
        fill(m, bytes, 1);
    else
        fill(m, bytes, 2);
    for (size_t i = 0; i < words; i++)
        mask[i] = tlc_load64(m->out + i * sizeof *mask);
    m->filled -= bytes;
    memmove(m->out, m->out + bytes, TLC_GOLOMB_OPEN);
}
