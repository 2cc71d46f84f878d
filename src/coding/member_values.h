/* SPDX-License-Identifier: MIT
 *
 * The values of members, after their positions in a payload: a f32 each, or a code of 1 or 2 bits. Code i has the bits
 * from i * bits on, counted from the least significant bit of each byte. Bit 0 of a code is the sign, 1 for negative.
 * The magnitude is scalars[bit 1].
 */
#ifndef TLC_MEMBER_VALUES_H
#define TLC_MEMBER_VALUES_H

#include "../stages/stage.h"

typedef struct tlc_value_writer {
    const tlc_unit *u;
    uint8_t *to;
    unsigned bits;
    unsigned open, used; /* the bits of a byte that is not full yet */
} tlc_value_writer;

void tlc_values_write(tlc_value_writer *w, const float *values, size_t count);
uint8_t *tlc_values_end(tlc_value_writer *w); /* writes the last byte, and returns where the values end */

/* Are these the values of members: none is 0 or not finite, and the bits after the last one are 0? Any float mode. */
int tlc_values_valid(const tlc_unit *u, const uint8_t *src, uint64_t count);

typedef struct tlc_value_reader {
    const uint8_t *from;
    unsigned bits;
    uint64_t next, count; /* the next value; all of them */
    float value[4];       /* what codes stand for */
} tlc_value_reader;

tlc_value_reader tlc_values_at(const tlc_unit *u, const uint8_t *src, uint64_t count);

/* Reads the next values. */
void tlc_values_read(tlc_value_reader *r, size_t count, float *values);

/* The next values without moving on: at least as many as there are members in the mask of a chunk, *have in all. They
 * are in place, unaligned, or copied to buf. */
const void *tlc_values_peek(const tlc_value_reader *r, const uint64_t mask[TLC_MASK_WORDS], float buf[TLC_CHUNK],
                            size_t *have);
#endif
