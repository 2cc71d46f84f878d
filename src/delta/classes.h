/* SPDX-License-Identifier: MIT
 *
 * The codes of the classes of a block, in four streams that are read side by side: a code begins where the one before
 * it ends, so the processor would wait. src/docs/format.md draws them.
 */
#ifndef TLC_DELTA_CLASSES_H
#define TLC_DELTA_CLASSES_H

#include "../common/bits.h"
#include "prefix_code.h"

enum { TLC_STREAMS = 4, TLC_TURN = 1024, TLC_ROUND = TLC_STREAMS * TLC_TURN };

/* How many of n weights have their class in stream s. */
static inline size_t tlc_stream_weights(size_t n, unsigned s)
{
    const size_t rest = n % TLC_ROUND, before = (size_t)s * TLC_TURN;
    const size_t last = rest <= before ? 0 : rest - before < TLC_TURN ? rest - before : TLC_TURN;

    return n / TLC_ROUND * TLC_TURN + last;
}

enum {
    TLC_LOOKUPS = 57 / TLC_CODE_MAX,                    /* of a window of 57 bits */
    TLC_CLASSES_AHEAD = TLC_LOOKUPS * TLC_ENTRY_CLASSES /* the most classes that they give */
};

typedef struct tlc_classes {
    const tlc_prefix_table *table;
    tlc_bit_reader stream[TLC_STREAMS];
    uint8_t ahead[TLC_STREAMS][TLC_CLASSES_AHEAD]; /* classes that were read with those before them */
    size_t ahead_count[TLC_STREAMS];
} tlc_classes;

/* Reads the lengths, in any bytes. Returns the bytes of lengths and streams, or 0 if there are not so many. */
size_t tlc_classes_open(tlc_classes *c, const tlc_prefix_table *table, const uint8_t *src, size_t len);

/* Are the streams valid, to their last bits, for n weights? *sum: of all classes. The streams were just opened. */
int tlc_classes_check(const tlc_classes *c, size_t n, uint64_t *sum);

/* Reads the classes of the next `count` weights, at most TLC_ROUND; fewer are the last ones. The streams have passed
 * the check. class: room for TLC_ROUND. */
void tlc_classes_next(tlc_classes *c, size_t count, uint8_t *class);
#endif
