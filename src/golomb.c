/* SPDX-License-Identifier: MIT */
#include "float_rules.h"

#include "golomb.h"

/* ---- the parameter and the bound ---------------------------------------------------------------------------------- */

unsigned tlc_golomb_parameter(uint64_t k, uint64_t n)
{
    unsigned b = 0;

    if (!k)
        return 0;
    for (double q = 1.0 - (double)k / (double)n; !(q < 0.6180339887498949) && b < TLC_GOLOMB_MAX; b++)
        q *= q;
    return b;
}

static size_t head_size(uint64_t k)
{
    size_t size = 2;

    while (k >>= 7)
        size++;
    return size;
}

/* Largest payload of exactly k positions. All d - 1 add up to at most n - k, so the quotients add up to at most
 * (n - k) / 2^b, which one long distance reaches. */
static uint64_t bound_of(uint64_t n, uint64_t k, unsigned signs)
{
    unsigned b = tlc_golomb_parameter(k, n);
    uint64_t bits;

    if (__builtin_mul_overflow(k, 1 + b + signs, &bits) || __builtin_add_overflow(bits, (n - k) >> b, &bits))
        return UINT64_MAX;
    return head_size(k) + bits / 8 + (bits % 8 != 0);
}

/* Each operation of the parameter rounds monotonically, so it falls as k rises; and where it stays the same the bound
 * rises with k. So the largest is at the last k of one of the parameters. */
uint64_t tlc_golomb_bound(uint64_t n, uint64_t most, int signs)
{
    uint64_t largest = 2;

    for (uint64_t k = most < n ? most : n; k;) {
        unsigned b = tlc_golomb_parameter(k, n);
        uint64_t bound = bound_of(n, k, signs != 0), low = 0;

        largest = bound > largest ? bound : largest;
        for (uint64_t high = k; high - low > 1;) { /* the parameter of low is above b (or low is 0), that of high is not */
            uint64_t middle = low + (high - low) / 2;
            if (tlc_golomb_parameter(middle, n) > b)
                low = middle;
            else
                high = middle;
        }
        k = low;
    }
    return largest;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

typedef struct writer {
    uint8_t *at, *end;
    uint64_t bits; /* the low `used` */
    unsigned used; /* < 8 between calls */
} writer;

/* count <= 56 */
static int put(writer *w, uint64_t code, unsigned count)
{
    w->bits = w->bits << count | code;
    for (w->used += count; w->used >= 8; w->used -= 8) {
        if (w->at == w->end)
            return 0;
        *w->at++ = (uint8_t)(w->bits >> (w->used - 8));
    }
    return 1;
}

static int put_position(writer *w, uint64_t distance, unsigned b, unsigned signs, unsigned sign)
{
    uint64_t quotient = distance >> b;

    for (; quotient >= 48; quotient -= 48)
        if (!put(w, 0xffffffffffffu, 48))
            return 0;
    if (!put(w, ((uint64_t)1 << (quotient + 1)) - 2, (unsigned)quotient + 1) ||
        !put(w, distance & (((uint64_t)1 << b) - 1), b))
        return 0;
    return !signs || put(w, sign, 1);
}

size_t tlc_golomb_write(const uint64_t *mask, const uint64_t *negative, uint64_t n, uint64_t k, uint8_t *dst, size_t cap)
{
    unsigned b = tlc_golomb_parameter(k, n);
    writer w = {dst, dst + cap, 0, 0};
    uint64_t next = 0, rest = k;

    for (; rest >= 128; rest >>= 7)
        if (!put(&w, rest % 128 + 128, 8))
            return 0;
    if (!put(&w, rest, 8) || !put(&w, b, 8))
        return 0;
    for (size_t i = 0; i < n / 64 + (n % 64 != 0); i++)
        for (uint64_t word = mask[i]; word; word &= word - 1) {
            unsigned bit = (unsigned)__builtin_ctzll(word);
            uint64_t index = (uint64_t)i * 64 + bit;
            if (!put_position(&w, index - next, b, negative != NULL, negative ? negative[i] >> bit & 1 : 0))
                return 0;
            next = index + 1;
        }
    if (w.used && !put(&w, 0, 8 - w.used))
        return 0;
    return (size_t)(w.at - dst);
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

int tlc_golomb_open(tlc_golomb_reader *reader, const void *src, size_t len, uint64_t n, int signs)
{
    const uint8_t *p = src;
    size_t at = 0;
    uint64_t k = 0;

    for (unsigned shift = 0;; shift += 7) {
        if (at == len || shift > 63 || (shift == 63 && p[at] > 1))
            return 0;
        k |= (uint64_t)(p[at] & 127) << shift;
        if (p[at++] < 128)
            break;
    }
    if ((at > 1 && !p[at - 1]) || at == len || k > n || p[at] > TLC_GOLOMB_MAX)
        return 0;
    *reader = (tlc_golomb_reader){
        .stream = p + at + 1,
        .head = at + 1,
        .size = len - at - 1,
        .n = n,
        .k = k,
        .left = k,
        .b = p[at],
        .signs = signs != 0,
    };
    return 1;
}

/* The next 57 bits or more from the top down; 0 bits behind the stream. */
static uint64_t window(const tlc_golomb_reader *r, uint64_t bit)
{
    uint64_t word = 0;

    for (size_t i = 0, at = (size_t)(bit / 8); i < 8; i++)
        word = word << 8 | (at + i < r->size ? r->stream[at + i] : 0);
    return word << bit % 8;
}

/* One code. Returns 0 if it does not end within the stream or its position is not below n. */
static int read_code(tlc_golomb_reader *r, uint64_t *index, uint8_t *sign)
{
    uint64_t end = (uint64_t)r->size * 8, quotient = 0, ones, distance;

    do {
        ones = (uint64_t)__builtin_clzll(~window(r, r->bit) | 0x7f); /* 57 at most */
        quotient += ones;
        r->bit += ones;
    } while (ones == 57);
    if (end < r->bit || end - r->bit < 1 + r->b + r->signs || r->index >= r->n ||
        quotient > (r->n - r->index - 1) >> r->b)
        return 0;
    r->bit++;
    distance = (quotient << r->b) + (r->b ? window(r, r->bit) >> (64 - r->b) : 0);
    r->bit += r->b;
    if (distance >= r->n - r->index)
        return 0;
    *index = r->index + distance;
    *sign = r->signs ? (uint8_t)(window(r, r->bit) >> 63) : 0;
    r->bit += r->signs;
    r->index = *index + 1;
    r->left--;
    return 1;
}

int tlc_golomb_check(const tlc_golomb_reader *reader, size_t *size)
{
    tlc_golomb_reader r = *reader;
    uint64_t index;
    uint8_t sign;

    while (r.left)
        if (!read_code(&r, &index, &sign))
            return 0;
    if (r.bit % 8 && window(&r, r.bit) >> (56 + r.bit % 8))
        return 0;
    *size = r.head + (size_t)(r.bit / 8) + (r.bit % 8 != 0);
    return 1;
}

size_t tlc_golomb_next(tlc_golomb_reader *reader, size_t *index, uint8_t *negative, size_t cap)
{
    size_t count = 0;

    for (; count < cap && reader->left; count++) {
        uint64_t at;
        uint8_t sign;
        if (!read_code(reader, &at, &sign))
            break;
        index[count] = (size_t)at;
        if (negative)
            negative[count] = sign;
    }
    return count;
}
