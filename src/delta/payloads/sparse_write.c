/* SPDX-License-Identifier: MIT
 *
 * Writes sparse payloads, from masks or from lists.
 */
#include "../../common/bits.h"
#include "../../common/bytes.h"
#include "../../common/varint.h"
#include "../../positions/golomb.h"
#include "sparse.h"
#include "weights.h"

enum { LENGTH_MAX = 4 /* bytes of a length */ };

/* ---- magnitudes above 1 ------------------------------------------------------------------------------------------ */

/* The order whose codes are shortest, about: numbers of c bits count as one. */
static unsigned best_order(const uint32_t counts[33])
{
    uint64_t least = UINT64_MAX;
    unsigned best = 0, longest = 32;

    while (longest && !counts[longest])
        longest--;
    for (unsigned r = 0; r <= TLC_DELTA_ORDER_MAX && r <= longest; r++) { /* above that all codes only get longer */
        uint64_t bits = 0;
        for (unsigned c = 0; c <= longest; c++)
            bits += (uint64_t)counts[c] * (c <= r ? 1 + r : 2 * (c - r) + 1 + r);
        if (bits < least) {
            least = bits;
            best = r;
        }
    }
    return best;
}

/* v: |d| - 2 */
static int put_magnitude(tlc_bit_writer *w, uint32_t v, unsigned r)
{
    const uint64_t q = ((uint64_t)v >> r) + 1;
    const unsigned rest = 63 - (unsigned)__builtin_clzll(q);

    return tlc_bits_put(w, ((uint64_t)2 << rest) - 2, rest + 1) && /* at most 33 bits */
           (!(rest + r) || tlc_bits_put(w, (q ^ (uint64_t)1 << rest) << r | (v & (((uint64_t)1 << r) - 1)), rest + r));
}

/* ---- what differs ------------------------------------------------------------------------------------------------ */

/* The units of a block that differ: masks, or a list. */
typedef struct source {
    const tlc_delta_masks *masks; /* or NULL */
    const tlc_delta_list *list;
    const tlc_delta_weights *w;
    const uint8_t *next;
} source;

/* Bits of `large` where `changed` is 1, put together. */
static void find_among(tlc_delta_masks *masks, size_t words)
{
    uint64_t at = 0;

    masks->large_k = 0;
    memset(masks->among, 0, words * sizeof *masks->among);
    for (size_t i = 0; i < words; i++) {
        for (uint64_t large = masks->large[i]; large; large &= large - 1) {
            const uint64_t before = at + tlc_count_ones(masks->changed[i] & ((large & -large) - 1));
            masks->among[before / 64] |= (uint64_t)1 << before % 64;
            masks->large_k++;
        }
        at += tlc_count_ones(masks->changed[i]);
    }
    masks->has_among = 1;
}

/* The next word of masks->large with a bit from word i on, or `words`. They are few. */
static size_t next_large(const uint64_t *large, size_t i, size_t words)
{
    while (i + 3 < words && !(large[i] | large[i + 1] | large[i + 2] | large[i + 3]))
        i += 4;
    while (i < words && !large[i])
        i++;
    return i;
}

enum { BATCH = 256 };

/* The next magnitudes above 1. *word: 0 before the first call. Returns how many, or 0 at the end. */
static size_t next_magnitudes(const source *s, size_t *word, uint32_t room[BATCH], const uint32_t **magnitudes)
{
    const size_t words = (s->w->n + 63) / 64;
    const tlc_weight_unit unit = tlc_delta_unit(s->w->dtype);
    size_t count = 0;

    if (!s->masks) {
        *magnitudes = s->list->magnitude;
        return (*word)++ ? 0 : s->list->large_k;
    }
    for (*magnitudes = room; (*word = next_large(s->masks->large, *word, words)) < words && count <= BATCH - 64;
         ++*word)
        for (uint64_t large = s->masks->large[*word]; large; large &= large - 1) {
            const size_t i = 64 * *word + (size_t)__builtin_ctzll(large);
            room[count++] = tlc_magnitude(
                tlc_difference(tlc_weight_load(s->w->base, i, unit), tlc_weight_load(s->next, i, unit), unit));
        }
    return count;
}

/* ---- a payload --------------------------------------------------------------------------------------------------- */

static size_t write_magnitudes(const source *s, uint8_t *dst, size_t cap)
{
    uint32_t counts[33] = {0}, room[BATCH];
    tlc_bit_writer writer = {dst, dst + cap, 0, 0};
    const uint32_t *magnitudes;
    size_t word = 0, count;

    while ((count = next_magnitudes(s, &word, room, &magnitudes)))
        for (size_t j = 0; j < count; j++)
            counts[tlc_bit_length(magnitudes[j] - 2)]++;
    const unsigned r = best_order(counts);
    if (!tlc_bits_put(&writer, r, 8))
        return 0;
    word = 0;
    while ((count = next_magnitudes(s, &word, room, &magnitudes)))
        for (size_t j = 0; j < count; j++)
            if (!put_magnitude(&writer, magnitudes[j] - 2, r))
                return 0;
    return tlc_bits_end(&writer) ? (size_t)(writer.at - dst) : 0;
}

/* Writes positions after their length. large: those that are large, among all that differ. Returns the bytes, or 0. */
static size_t write_positions(const source *s, int large, uint8_t *dst, size_t cap)
{
    const tlc_delta_list *l = s->list;
    const tlc_delta_masks *m = s->masks;
    uint8_t *to = dst + LENGTH_MAX;
    size_t len;

    if (cap <= LENGTH_MAX)
        return 0;
    cap -= LENGTH_MAX;
    if (m)
        len = large ? tlc_golomb_write(m->among, NULL, m->k, m->large_k, to, cap)
                    : tlc_golomb_write(m->changed, m->negative, s->w->n, m->k, to, cap);
    else
        len = large ? tlc_golomb_write_gaps(l->large_gap, l->large_k, l->k, 0, to, cap)
                    : tlc_golomb_write_gaps(l->gap, l->k, s->w->n, 1, to, cap);
    if (!len)
        return 0;
    const size_t head = tlc_varint_write(dst, len);
    memmove(dst + head, to, len);
    return head + len;
}

/* What follows the positions of the weights that differ. */
static size_t write_large(const source *s, uint8_t *dst, size_t cap)
{
    if (!(s->masks ? s->masks->large_k : s->list->large_k)) {
        if (cap)
            *dst = 0; /* the length of no positions */
        return cap != 0;
    }
    const size_t at = write_positions(s, 1, dst, cap);
    const size_t len = at ? write_magnitudes(s, dst + at, cap - at) : 0;
    return len ? at + len : 0;
}

static size_t write_payload(const source *s, uint8_t *dst, size_t cap)
{
    const size_t at = write_positions(s, 0, dst, cap), len = at ? write_large(s, dst + at, cap - at) : 0;

    return len ? at + len : 0;
}

size_t tlc_delta_sparse_write(const tlc_delta_weights *w, tlc_delta_masks *masks, const uint8_t *next, uint8_t *dst,
                              size_t cap)
{
    const source s = {masks, NULL, w, next};

    if (!masks->has_among)
        find_among(masks, (w->n + 63) / 64);
    return write_payload(&s, dst, cap);
}

size_t tlc_delta_sparse_write_list(const tlc_delta_weights *w, const tlc_delta_list *list, uint8_t *dst, size_t cap)
{
    const source s = {.list = list, .w = w};

    return write_payload(&s, dst, cap);
}
