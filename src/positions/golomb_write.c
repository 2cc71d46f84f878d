/* SPDX-License-Identifier: MIT */
#include "golomb.h"

#include "../common/bytes.h"
#include "../common/stack.h"
#include "../common/varint.h"

/* ---- the parameter and the bound --------------------------------------------------------------------------------- */

unsigned tlc_golomb_parameter(uint64_t k, uint64_t n)
{
    unsigned b = 0;

    if (!k)
        return 0;
    for (double q = 1.0 - (double)k / (double)n; !(q < 0.6180339887498949) && b < TLC_GOLOMB_MAX; b++)
        q *= q;
    return b;
}

/* Bytes of k and b. */
static size_t head_size(uint64_t k)
{
    return tlc_varint_size(k) + 1;
}

/* The largest payload of exactly k positions. The sum of all d - 1 is at most n - k, so the sum of the quotients is at
 * most (n - k) / 2^b. One long distance reaches that. */
static uint64_t bound_of(uint64_t n, uint64_t k, unsigned signs)
{
    unsigned b = tlc_golomb_parameter(k, n);
    uint64_t bits;

    if (__builtin_mul_overflow(k, 1 + b + signs, &bits) || __builtin_add_overflow(bits, (n - k) >> b, &bits))
        return UINT64_MAX;
    return head_size(k) + bits / 8 + (bits % 8 != 0);
}

/* The largest k whose parameter is above b. That of `most` is not above b. All operations in the parameter round
 * monotonically, so it never rises with k. */
static uint64_t last_above(uint64_t n, uint64_t most, unsigned b)
{
    uint64_t low = 0;

    for (uint64_t high = most; high - low > 1;) {
        uint64_t middle = low + (high - low) / 2;
        if (tlc_golomb_parameter(middle, n) > b)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* For the same parameter the bound rises with k. So only the last k of each parameter counts. The last k of b + 1 is at
 * most 0.56 of that of b; except for b = 0 without signs, where all n positions need fewer bytes than 0.382 n
 * positions. So only the parameter of `most` and the next larger one can have the maximum. */
uint64_t tlc_golomb_bound(uint64_t n, uint64_t members_max, int signs)
{
    uint64_t k = members_max < n ? members_max : n, here, above;

    if (!k)
        return 2;
    here = bound_of(n, k, signs != 0);
    k = last_above(n, k, tlc_golomb_parameter(k, n));
    above = k ? bound_of(n, k, signs != 0) : 0;
    return here > above ? here : above;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

typedef tlc_bit_writer writer;

/* distance: d - 1. signs: the number of sign bits, 0 or 1. sign: that bit. */
static int put_position(writer *w, uint64_t distance, unsigned b, unsigned signs, unsigned sign)
{
    uint64_t quotient = distance >> b, rest = (distance & (((uint64_t)1 << b) - 1)) << signs | sign;

    while (quotient > 56 - b - signs) { /* at least 7 */
        unsigned some = quotient < 48 ? 8 : 48;
        if (!tlc_bits_put(w, ((uint64_t)1 << some) - 1, some))
            return 0;
        quotient -= some;
    }
    return tlc_bits_put(w, (((uint64_t)2 << quotient) - 2) << (b + signs) | rest, (unsigned)quotient + 1 + b + signs);
}

/* The positions of some words of the mask, at most STRETCH. */
enum { BATCH = 512, STRETCH = 1024 };
typedef struct batch {
    uint64_t base;
    const uint64_t *negative; /* the mask from base on, or NULL */
    size_t count;
    uint32_t at[BATCH + 64]; /* position - base; from count on they may be overwritten */
} batch;

static inline unsigned sign_at(const uint64_t *negative, uint32_t at)
{
    return (unsigned)(negative[at / 64] >> at % 64 & 1);
}

/* Writes positions first .. last - 1. *next: the least index that the next position can have. */
static int put_each(writer *w, const batch *p, size_t first, size_t last, unsigned b, uint64_t *next)
{
    const unsigned signs = p->negative != NULL;

    for (size_t i = first; i < last; i++) {
        uint64_t index = p->base + p->at[i];
        if (!put_position(w, index - *next, b, signs, signs ? sign_at(p->negative, p->at[i]) : 0))
            return 0;
        *next = index + 1;
    }
    return 1;
}

/* Nearly all distances are short. A table has their codes, by d: code << 8 | the number of its bits, at most 23. */
enum { TABLE_B = 6, TABLE_QUOTIENTS = 16, TABLE = TABLE_QUOTIENTS << TABLE_B };

static void fill_table(uint32_t *table, unsigned b, unsigned signs)
{
    for (uint32_t q = 0; q < TABLE_QUOTIENTS; q++)
        for (uint32_t r = 0; r < (uint32_t)1 << b; r++)
            table[(q << b) + r + 1] = (((((uint32_t)2 << q) - 2) << b) + r) << signs << 8 | (q + 1 + b + signs);
}

/* Writes four positions. Returns 0 if a code is not in the table, or if they have more than 57 bits. */
static inline __attribute__((TLC_FORCED)) int put_four(writer *w, const uint32_t *at, const uint64_t *negative,
                                                       unsigned b, const uint32_t *table)
{
    uint32_t d1 = at[0] - at[-1], d2 = at[1] - at[0], d3 = at[2] - at[1], d4 = at[3] - at[2];
    uint32_t e1, e2, e3, e4, bits;
    uint64_t c1, c2, c3, c4;

    if (__builtin_expect((d1 | d2 | d3 | d4) >= (uint32_t)TABLE_QUOTIENTS << b, 0))
        return 0;
    e1 = table[d1], e2 = table[d2], e3 = table[d3], e4 = table[d4];
    bits = (e1 + e2 + e3 + e4) & 255;
    if (__builtin_expect(bits > 57, 0))
        return 0;
    c1 = e1 >> 8, c2 = e2 >> 8, c3 = e3 >> 8, c4 = e4 >> 8;
    if (negative) {
        c1 |= sign_at(negative, at[0]);
        c2 |= sign_at(negative, at[1]);
        c3 |= sign_at(negative, at[2]);
        c4 |= sign_at(negative, at[3]);
    }
    c1 = c1 << (e2 & 63) | c2;
    c3 = c3 << (e4 & 63) | c4;
    w->bits = w->bits << bits | c1 << ((e3 + e4) & 63) | c3;
    w->used += bits;
    tlc_bits_flush(w);
    return 1;
}

/* Writes all positions but the first. There is room for them and for 8 bytes more. */
static inline __attribute__((TLC_FORCED)) int put_fours(writer *w, const batch *p, const uint64_t *negative, unsigned b,
                                                        const uint32_t *table, uint64_t *next)
{
    writer v = *w, slow; /* v may live in registers */
    size_t i = 1;

    for (; i + 3 < p->count; i += 4) {
        if (put_four(&v, p->at + i, negative, b, table))
            continue;
        slow = v;
        *next = p->base + p->at[i - 1] + 1;
        if (!put_each(&slow, p, i, i + 4, b, next))
            return 0;
        v = slow;
    }
    *w = v;
    *next = p->base + p->at[i - 1] + 1;
    return put_each(w, p, i, p->count, b, next);
}

/* Writes a batch, which is not empty. table: that of b, or NULL. */
static int put_batch(writer *w, const batch *p, unsigned b, const uint32_t *table, uint64_t *next)
{
    uint64_t bits;

    if (!put_each(w, p, 0, 1, b, next))
        return 0;
    /* the sum of the other distances is last - first */
    bits = p->count * (2 + b) + ((p->at[p->count - 1] - p->at[0]) >> b);
    if (!table || (uint64_t)(w->end - w->at) < bits / 8 + 9)
        return put_each(w, p, 1, p->count, b, next);
    return p->negative ? put_fours(w, p, p->negative, b, table, next) : put_fours(w, p, NULL, b, table, next);
}

/* The index of the lowest 1; 63 for x = 0. */
static inline uint32_t lowest(uint64_t x)
{
    return (uint32_t)__builtin_ctzll(x | (uint64_t)1 << 63);
}

/* take_dense and take_sparse fill a batch and return how many words of the mask they took. Branches that depend on the
 * data cost most. So they write more positions than a word has, and count only those that it has. */

/* Writes `some` positions at a time. */
static inline __attribute__((TLC_FORCED)) size_t take_dense(batch *p, const uint64_t *mask, size_t words, size_t some)
{
    size_t i = 0, count = 0;

    for (; i < words && count <= BATCH - 64; i++) {
        uint64_t word = mask[i];
        size_t end = count + tlc_count_ones(word);
        do {
            for (size_t j = 0; j < some; j++, word &= word - 1)
                p->at[count + j] = (uint32_t)i * 64 + lowest(word);
            count += some;
        } while (count < end);
        count = end;
    }
    p->count = count;
    return i;
}

/* For masks whose words mostly have no position or one. */
static size_t take_sparse(batch *p, const uint64_t *mask, size_t words)
{
    uint16_t filled[STRETCH];
    size_t count = 0, fills = 0;

    for (size_t i = 0; i < words; i++) {
        filled[fills] = (uint16_t)i;
        fills += (size_t)(mask[i] != 0);
    }
    for (size_t j = 0; j < fills; j++) {
        uint64_t word = mask[filled[j]];
        uint32_t base = filled[j] * 64u;
        p->at[count] = base + lowest(word);
        word &= word - 1;
        p->at[count + 1] = base + lowest(word);
        count += 1 + (size_t)((word | -word) >> 63); /* gcc would make a branch of "word != 0" */
        while (word &= word - 1)
            p->at[count++] = base + lowest(word);
        if (count > BATCH - 64) {
            p->count = count;
            return filled[j] + (size_t)1;
        }
    }
    p->count = count;
    return words;
}

static size_t take(batch *p, const uint64_t *mask, size_t words, unsigned b)
{
    words = words < STRETCH ? words : STRETCH;
    if (b < 5)
        return take_dense(p, mask, words, 8);
    return b == 5 ? take_dense(p, mask, words, 4) : take_sparse(p, mask, words);
}

uint64_t tlc_golomb_length(const uint64_t *mask, uint64_t n, uint64_t k, int signs)
{
    const unsigned b = tlc_golomb_parameter(k, n);
    const size_t words = (size_t)(n / 64 + (n % 64 != 0));
    uint64_t bits = k * (1 + b + (signs != 0)), next = 0;

    for (size_t i = 0; i < words; i++)
        for (uint64_t word = mask[i]; word; word &= word - 1) {
            uint64_t index = (uint64_t)i * 64 + lowest(word);
            bits += (index - next) >> b;
            next = index + 1;
        }
    return head_size(k) + bits / 8 + (bits % 8 != 0);
}

static int put_head(writer *w, uint64_t k, unsigned b)
{
    uint8_t head[TLC_VARINT_MAX + 1];
    size_t size = tlc_varint_write(head, k);

    head[size++] = (uint8_t)b;
    for (size_t i = 0; i < size; i++)
        if (!tlc_bits_put(w, head[i], 8))
            return 0;
    return 1;
}

/* The payload's bytes. */
static size_t end(writer *w, const uint8_t *dst)
{
    return tlc_bits_end(w) ? (size_t)(w->at - dst) : 0;
}

size_t tlc_golomb_write(const uint64_t *mask, const uint64_t *negative, uint64_t n, uint64_t k, uint8_t *dst,
                        size_t cap)
{
    const unsigned b = tlc_golomb_parameter(k, n);
    const size_t words = (size_t)(n / 64 + (n % 64 != 0));
    const int tabled = b <= TABLE_B && k >= (uint64_t)4 << b; /* else filling it costs more than it saves */
    writer w = {dst, dst + cap, 0, 0};
    uint32_t table[TABLE + 1];
    uint64_t next = 0;
    batch p;

    if (!put_head(&w, k, b))
        return 0;
    if (tabled)
        fill_table(table, b, negative != NULL);
    for (size_t i = 0, taken; i < words; i += taken) {
        p.base = (uint64_t)i * 64;
        p.negative = negative ? negative + i : NULL;
        taken = take(&p, mask + i, words - i, b);
        if (p.count && !put_batch(&w, &p, b, tabled ? table : NULL, &next))
            return 0;
    }
    return end(&w, dst);
}

/* Writes two gaps. low: bits after the quotient. Returns 0 if they have more than 57 bits. */
static inline __attribute__((TLC_FORCED)) int put_two(writer *w, const uint32_t *gap, unsigned low)
{
    const uint64_t rest = ((uint64_t)1 << low) - 1, q1 = (uint64_t)gap[0] >> low, q2 = (uint64_t)gap[1] >> low;
    const uint64_t bits1 = q1 + 1 + low, bits2 = q2 + 1 + low;

    if (__builtin_expect(bits1 + bits2 > 57, 0))
        return 0;
    const uint64_t code1 = (((uint64_t)2 << q1) - 2) << low | (gap[0] & rest);
    const uint64_t code2 = (((uint64_t)2 << q2) - 2) << low | (gap[1] & rest);
    w->bits = w->bits << (bits1 + bits2) | code1 << bits2 | code2;
    w->used += (unsigned)(bits1 + bits2);
    tlc_bits_flush(w);
    return 1;
}

size_t tlc_golomb_write_gaps(const uint32_t *gaps, uint64_t k, uint64_t n, int signs, uint8_t *dst, size_t cap)
{
    const unsigned b = tlc_golomb_parameter(k, n), sign = signs != 0, low = b + sign;
    const uint64_t most = (k * (1 + low) + (n >> b)) / 8 + 9; /* bytes: the sum of the gaps is at most n */
    writer w = {dst, dst + cap, 0, 0}, slow;

    if (!put_head(&w, k, b))
        return 0;
    const int has_room = (uint64_t)(w.end - w.at) >= most;
    for (uint64_t i = 0; i < k;) {
        if (has_room && i + 1 < k && put_two(&w, gaps + i, low)) {
            i += 2;
            continue;
        }
        slow = w; /* w may live in registers */
        if (!put_position(&slow, gaps[i] >> sign, b, sign, gaps[i] & sign))
            return 0;
        w = slow;
        i++;
    }
    return end(&w, dst);
}
