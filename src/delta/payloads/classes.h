/* SPDX-License-Identifier: MIT
 *
 * The codes of the classes of a block, in four lanes that are read side by side: a code begins where the one before
 * it ends, so the processor would wait. src/docs/format.md draws them.
 */
#ifndef TLC_DELTA_CLASSES_H
#define TLC_DELTA_CLASSES_H

#include "../../common/bits.h"
#include "prefix_code.h"

enum { TLC_LANES = 4, TLC_TURN = 1024, TLC_CYCLE = TLC_LANES * TLC_TURN };

/* How many of n weights have their class in lane s. */
static inline size_t tlc_lane_weights(size_t n, unsigned s)
{
    const size_t rest = n % TLC_CYCLE, before = (size_t)s * TLC_TURN;
    const size_t last = rest <= before ? 0 : rest - before < TLC_TURN ? rest - before : TLC_TURN;

    return n / TLC_CYCLE * TLC_TURN + last;
}

enum {
    TLC_LOOKUPS = 57 / TLC_CODE_MAX,                    /* of a window of 57 bits */
    TLC_CLASSES_AHEAD = TLC_LOOKUPS * TLC_ENTRY_CLASSES /* the most classes that they give */
};

typedef struct tlc_classes {
    const tlc_prefix_table *table;
    tlc_bit_reader lane[TLC_LANES];
    uint8_t ahead[TLC_LANES][TLC_CLASSES_AHEAD]; /* classes that were read with those before them */
    size_t ahead_count[TLC_LANES];
} tlc_classes;

/* Reads the lengths, in any bytes. Returns the bytes of lengths and lanes, or 0 if there are not that many. */
size_t tlc_classes_open(tlc_classes *c, const tlc_prefix_table *table, const uint8_t *src, size_t len);

/* Are the lanes valid, to their last bits, for n weights? *sum: of all classes. The lanes were just opened. */
int tlc_classes_check(const tlc_classes *c, size_t n, uint64_t *sum);

/* Reads the classes of the next `count` weights, at most TLC_CYCLE; fewer are the last ones. The lanes have passed
 * the check. class: room for TLC_CYCLE. */
void tlc_classes_next(tlc_classes *c, size_t count, uint8_t *class);
#endif
