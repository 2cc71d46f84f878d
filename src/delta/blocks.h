/* SPDX-License-Identifier: MIT
 *
 * Payloads of blocks, of four kinds. src/docs/format.md draws them.
 *
 * The weights of a block are read as unsigned integers of 16 or 32 bits. ordered(x) is x with all bits but the sign
 * inverted if the sign is 1; as two's complement it orders like the floats. The difference of a weight is d =
 * ordered(next) - ordered(base), modulo 2^16 or 2^32.
 */
#ifndef TLC_DELTA_BLOCKS_H
#define TLC_DELTA_BLOCKS_H

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

/* Writes the shortest payload. dst has room for the weights themselves, and all of it may be overwritten. Needs the
 * default float mode. */
tlc_delta_kind tlc_delta_block_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t *len);

enum { TLC_DELTA_TOGETHER = TLC_GOLOMB_LANES };

/* A block of a frame. */
typedef struct tlc_delta_block {
    tlc_delta_weights weights;
    tlc_delta_kind kind;
    const uint8_t *src;
    size_t len;
} tlc_delta_block;

/* Are these payloads of their weights, to the last bits? At most TLC_DELTA_TOGETHER blocks of one frame, with base or
 * without. *changed: the weights that differ in sparse blocks. */
int tlc_delta_blocks_check(const tlc_delta_block *blocks, size_t count, uint64_t *changed);

/* Makes the next weights of those at `weights`. The payload has passed the check. */
void tlc_delta_block_apply(const tlc_delta_block *block, uint8_t *weights);
#endif
