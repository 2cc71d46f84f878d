/* SPDX-License-Identifier: MIT */
#include "classes.h"
#include "../../common/stack.h"
#include "../../common/varint.h"

#define FORCED static inline __attribute__((TLC_FORCED)) /* so that whether classes are kept is a constant */

size_t tlc_classes_open(tlc_classes *c, const tlc_prefix_table *table, const uint8_t *src, size_t len)
{
    uint64_t size[TLC_LANES];
    size_t at = 0;

    memset(c, 0, sizeof *c);
    c->table = table;
    for (unsigned s = 0; s < TLC_LANES; s++)
        if (!tlc_varint_read(src, len, &at, &size[s]))
            return 0;
    for (unsigned s = 0; s < TLC_LANES; s++) {
        if (size[s] > len - at)
            return 0;
        c->lane[s] = (tlc_bit_reader){src + at, (size_t)size[s], 0};
        at += (size_t)size[s];
    }
    return at;
}

/* What was read of a lane. */
typedef struct taken {
    uint64_t bit, sum;
    size_t count;
    uint8_t *class; /* has room for TLC_CLASSES_AHEAD more than are wanted; NULL: they are not kept */
} taken;

/* Looks up what a window has. Returns 0 if it begins no code. */
FORCED int take_window(const tlc_classes *c, unsigned s, taken *t, int keep)
{
    uint64_t window = tlc_bits_at(c->lane[s].bytes, c->lane[s].size, t->bit), all = 0;

    for (unsigned i = 0; i < TLC_LOOKUPS; i++) {
        const uint64_t entry = c->table->entry[window >> (64 - TLC_CODE_MAX)];
        for (unsigned k = 0; keep && k < TLC_ENTRY_CLASSES; k++)
            t->class[t->count + (all & 255) + k] = (uint8_t)(entry >> 8 * k);
        all += entry >> 32;
        window <<= entry >> 40 & 63;
    }
    t->count += all & 255;
    t->bit += all >> 8 & 255;
    if (!keep)
        t->sum += all >> 16;
    return (all & 255) != 0;
}

/* Reads windows of all lanes side by side while all have fewer than `end` classes. */
FORCED int take_together(const tlc_classes *c, taken t[TLC_LANES], size_t end, int keep)
{
    taken a = t[0], b = t[1], d = t[2], e = t[3]; /* in registers */
    int valid = 1;

    while (valid && a.count < end && b.count < end && d.count < end && e.count < end)
        valid = take_window(c, 0, &a, keep) & take_window(c, 1, &b, keep) & take_window(c, 2, &d, keep) &
                take_window(c, 3, &e, keep);
    t[0] = a;
    t[1] = b;
    t[2] = d;
    t[3] = e;
    return valid;
}

/* Reads the last classes of a lane up to `count`, the very last of them one by one. */
static int take_last(const tlc_classes *c, unsigned s, taken *t, size_t count)
{
    int valid = 1;

    while (valid && count - t->count >= TLC_CLASSES_AHEAD)
        valid = take_window(c, s, t, 0);
    while (valid && t->count < count) {
        const uint64_t window = tlc_bits_at(c->lane[s].bytes, c->lane[s].size, t->bit);
        const uint64_t entry = c->table->entry[window >> (64 - TLC_CODE_MAX)];
        valid = entry != 0;
        t->sum += entry & 255;
        t->bit += c->table->length[entry & 255];
        t->count++;
    }
    return valid;
}

static size_t least_of(const size_t count[TLC_LANES])
{
    size_t least = count[0];

    for (unsigned s = 1; s < TLC_LANES; s++)
        least = count[s] < least ? count[s] : least;
    return least;
}

int tlc_classes_check(const tlc_classes *c, size_t n, uint64_t *sum)
{
    size_t count[TLC_LANES];
    taken t[TLC_LANES] = {{0}};

    for (unsigned s = 0; s < TLC_LANES; s++) {
        count[s] = tlc_lane_weights(n, s);
        if (count[s] > (uint64_t)c->lane[s].size * 8) /* a code has a bit or more */
            return 0;
    }
    const size_t least = least_of(count);
    if (least >= TLC_CLASSES_AHEAD && !take_together(c, t, least - TLC_CLASSES_AHEAD + 1, 0))
        return 0;
    *sum = 0;
    for (unsigned s = 0; s < TLC_LANES; s++) {
        if (!take_last(c, s, &t[s], count[s]))
            return 0;
        const tlc_bit_reader end = {c->lane[s].bytes, c->lane[s].size, t[s].bit};
        if (!tlc_bits_ended(&end))
            return 0;
        *sum += t[s].sum;
    }
    return 1;
}

/* A window may have classes of the next call, too. 0 bits follow the last code, and look like codes. */
void tlc_classes_next(tlc_classes *c, size_t count, uint8_t *class)
{
    uint8_t own[TLC_LANES][TLC_TURN + TLC_CLASSES_AHEAD];
    size_t counts[TLC_LANES];
    taken t[TLC_LANES];

    for (unsigned s = 0; s < TLC_LANES; s++) {
        counts[s] = tlc_lane_weights(count, s);
        memcpy(own[s], c->ahead[s], sizeof c->ahead[s]);
        t[s] = (taken){.bit = c->lane[s].bit, .count = c->ahead_count[s], .class = own[s]};
    }
    (void)take_together(c, t, least_of(counts), 1);
    for (unsigned s = 0; s < TLC_LANES; s++) {
        while (t[s].count < counts[s])
            (void)take_window(c, s, &t[s], 1);
        memcpy(class + (size_t)s * TLC_TURN, own[s], counts[s]);
        c->lane[s].bit = t[s].bit;
        c->ahead_count[s] = t[s].count - counts[s];
        memcpy(c->ahead[s], own[s] + counts[s], c->ahead_count[s]);
    }
}
