/* SPDX-License-Identifier: MIT
 *
 * Payloads of blocks. The weights of a block are read as unsigned integers of 16 or 32 bits. ordered(x) is x with all
 * bits but the sign inverted if the sign is 1; as two's complement it orders like the floats. The difference of a
 * weight is d = ordered(next) - ordered(base), modulo 2^16 or 2^32, -2^15 <= d < 2^15 or -2^31 <= d < 2^31.
 *
 *   same     nothing differs: no bytes
 *   sparse   the length of the next part, LEB128;
 *            positions of the weights that differ, with the signs of d, as positions/golomb.h has them;
 *            the length of the next part, LEB128, and the end if it is 0;
 *            positions of those with |d| > 1 among the ones that differ, without signs;
 *            r, one byte, 0..31, and for each |d| - 2 an exponential Golomb code of order r: with q =
 *            ((|d| - 2) >> r) + 1, as many ones as q has bits after its leading one, a zero, these bits, and the lowest
 *            r bits of |d| - 2
 *   dense    a prefix code of classes (prefix_code.h), the codes of the classes of all weights (classes.h), then the
 *            extra bits of all weights.
 *            With a base: the class is the number of bits of |d|; extra bits are, if d is not 0, its sign (1: negative)
 *            and the bits of |d| after its leading one. Without a base: the class is the exponent's field; extra bits
 *            are the sign and the mantissa
 *   raw      the next weights, little-endian
 *
 * Bits come most significant first; 0 bits fill the last byte of a stream.
 */
#ifndef TLC_DELTA_PAYLOAD_H
#define TLC_DELTA_PAYLOAD_H

#include "../kernels/kernels.h"

enum { TLC_DELTA_BLOCK = 65536 }; /* weights */

typedef enum tlc_delta_kind {
    TLC_DELTA_SAME = 0,
    TLC_DELTA_SPARSE = 1,
    TLC_DELTA_DENSE = 2,
    TLC_DELTA_RAW = 3
} tlc_delta_kind;

/* The weights of a block, at most TLC_DELTA_BLOCK. */
typedef struct tlc_delta_weights {
    const tlc_kernels *k;
    tlc_dtype dtype;
    const uint8_t *base; /* NULL: there is none */
    size_t n;
} tlc_delta_weights;

/* Bits of a weight. */
static inline unsigned tlc_delta_width(tlc_dtype dtype)
{
    return dtype == TLC_F32 ? 32 : 16;
}

enum { TLC_DELTA_TOGETHER = TLC_GOLOMB_LANES };

/* A block of a frame. */
typedef struct tlc_delta_block {
    tlc_delta_weights weights;
    tlc_delta_kind kind;
    const uint8_t *src;
    size_t len;
} tlc_delta_block;
#endif
