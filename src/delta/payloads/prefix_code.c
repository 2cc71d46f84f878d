/* SPDX-License-Identifier: MIT */
#include "prefix_code.h"

/* ---- lengths ----------------------------------------------------------------------------------------------------- */

/* A tree in the making: the classes, then the nodes above them. */
typedef struct tree {
    uint32_t weight[2 * TLC_CLASSES];
    uint16_t parent[2 * TLC_CLASSES];
    uint16_t open[TLC_CLASSES]; /* roots */
    unsigned roots, nodes;
} tree;

/* Takes the lightest root; of equal ones the oldest. */
static uint16_t take_lightest(tree *t)
{
    unsigned best = 0;

    for (unsigned i = 1; i < t->roots; i++)
        if (t->weight[t->open[i]] < t->weight[t->open[best]])
            best = i;
    uint16_t found = t->open[best];
    for (unsigned i = best; i + 1 < t->roots; i++)
        t->open[i] = t->open[i + 1];
    t->roots--;
    return found;
}

/* Huffman's algorithm. Returns the largest length. */
static unsigned huffman(const uint32_t weights[TLC_CLASSES], uint8_t length[TLC_CLASSES])
{
    unsigned longest = 0;
    tree t = {.nodes = TLC_CLASSES};

    for (unsigned c = 0; c < TLC_CLASSES; c++) {
        t.weight[c] = weights[c];
        if (weights[c])
            t.open[t.roots++] = (uint16_t)c;
    }
    const int single = t.roots == 1;
    while (t.roots > 1) {
        uint16_t a = take_lightest(&t), b = take_lightest(&t);
        t.weight[t.nodes] = t.weight[a] + t.weight[b];
        t.parent[a] = t.parent[b] = (uint16_t)t.nodes;
        t.open[t.roots++] = (uint16_t)t.nodes++;
    }
    for (unsigned c = 0; c < TLC_CLASSES; c++) {
        unsigned depth = weights[c] && single;
        for (unsigned node = c; weights[c] && !single && node != t.nodes - 1; node = t.parent[node])
            depth++;
        length[c] = (uint8_t)depth;
        longest = length[c] > longest ? length[c] : longest;
    }
    return longest;
}

/* The first code of each length. */
static void first_codes(const uint8_t length[TLC_CLASSES], uint32_t first[TLC_CODE_MAX + 2])
{
    uint32_t counts[TLC_CODE_MAX + 1] = {0};

    for (unsigned c = 0; c < TLC_CLASSES; c++)
        counts[length[c]]++;
    counts[0] = 0;
    first[0] = 0;
    for (unsigned l = 0; l <= TLC_CODE_MAX; l++)
        first[l + 1] = (first[l] + counts[l]) << 1;
}

void tlc_prefix_code_make(tlc_prefix_code *p, const uint32_t counts[TLC_CLASSES])
{
    uint32_t weights[TLC_CLASSES], first[TLC_CODE_MAX + 2];

    memcpy(weights, counts, sizeof weights);
    while (huffman(weights, p->length) > TLC_CODE_MAX)
        for (unsigned c = 0; c < TLC_CLASSES; c++)
            weights[c] = weights[c] / 2 + weights[c] % 2; /* ends with equal weights, of 8 bits */
    first_codes(p->length, first);
    for (unsigned c = 0; c < TLC_CLASSES; c++)
        p->code[c] = (uint16_t)(p->length[c] ? first[p->length[c]]++ : 0);
}

/* ---- the description --------------------------------------------------------------------------------------------- */

size_t tlc_prefix_code_write(const tlc_prefix_code *p, uint8_t *dst)
{
    unsigned first = 0, last = TLC_CLASSES - 1;

    while (!p->length[first])
        first++;
    while (!p->length[last])
        last--;
    const unsigned count = last - first + 1;
    dst[0] = (uint8_t)first;
    dst[1] = (uint8_t)(count - 1);
    memset(dst + 2, 0, (count + 1) / 2);
    for (unsigned i = 0; i < count; i++)
        dst[2 + i / 2] |= (uint8_t)(p->length[first + i] << (i % 2 ? 0 : 4));
    return 2 + (count + 1) / 2;
}

/* The classes that have a code, in the order of the codes. */
typedef struct sequence {
    uint8_t class[TLC_CLASSES], length[TLC_CLASSES];
    unsigned count, most; /* most: classes of an entry */
} sequence;

/* Fills the entries from `at` on, 2^bits of them, that begin with the codes of `entry`. */
/* NOLINTNEXTLINE(misc-no-recursion): an entry has at most TLC_ENTRY_CLASSES */
static void fill(uint64_t *at, unsigned bits, uint64_t entry, const sequence *s)
{
    const uint64_t *end = at + ((size_t)1 << bits);
    const unsigned count = (unsigned)(entry >> 32) & 255;

    for (unsigned i = 0; count < s->most && i < s->count && s->length[i] <= bits; i++) {
        const unsigned class = s->class[i], length = s->length[i];
        const uint64_t more = entry + ((uint64_t)class << 8 * count) + ((uint64_t)1 << 32) + ((uint64_t)length << 40) +
                              ((uint64_t)class << 48);
        fill(at, bits - length, more, s);
        at += (size_t)1 << (bits - length);
    }
    while (at < end)
        *at++ = entry;
}

/* Reads the lengths of all codes. Returns 0 if they describe no prefix code. */
static int read_lengths(uint8_t length[TLC_CLASSES], const uint8_t *src, size_t len, unsigned classes)
{
    uint32_t used = 0, single = 0;

    if (len < 2 || len - 2 < ((size_t)src[1] + 2) / 2 || (unsigned)src[0] + src[1] >= classes)
        return 0;
    const unsigned count = src[1] + 1u;
    memset(length, 0, TLC_CLASSES);
    for (unsigned i = 0; i < count; i++) {
        unsigned l = src[2 + i / 2] >> (i % 2 ? 0 : 4) & 15;
        if (l > TLC_CODE_MAX)
            return 0;
        length[src[0] + i] = (uint8_t)l;
        used += l ? (uint32_t)1 << (TLC_CODE_MAX - l) : 0;
        single += l != 0;
    }
    return !(count % 2 && src[2 + count / 2] & 15) && length[src[0]] && length[src[0] + count - 1] &&
           used == (uint32_t)1 << (single == 1 ? TLC_CODE_MAX - 1 : TLC_CODE_MAX);
}

size_t tlc_prefix_table_read(tlc_prefix_table *table, const uint8_t *src, size_t len, unsigned classes, int many,
                             unsigned *largest)
{
    sequence s = {.most = many ? TLC_ENTRY_CLASSES : 1};

    if (!read_lengths(table->length, src, len, classes))
        return 0;
    *largest = (unsigned)src[0] + src[1];
    for (unsigned l = 1; l <= TLC_CODE_MAX; l++)
        for (unsigned c = src[0]; c <= *largest; c++)
            if (table->length[c] == l) {
                s.class[s.count] = (uint8_t)c;
                s.length[s.count++] = (uint8_t)l;
            }
    fill(table->entry, TLC_CODE_MAX, 0, &s);
    return 2 + ((size_t)src[1] + 2) / 2;
}
