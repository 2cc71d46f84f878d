/* SPDX-License-Identifier: MIT
 *
 * Payloads of blocks, of four kinds. src/docs/format.md draws them.
 *
 * The weights of a block are read as unsigned integers of 16 or 32 bits. ordered(x) is x with all bits but the sign
 * inverted if the sign is 1; as two's complement it orders like the floats. The difference of a weight is d =
 * ordered(next) - ordered(base), modulo 2^16 or 2^32.
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
