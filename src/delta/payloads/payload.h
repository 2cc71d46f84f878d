/* SPDX-License-Identifier: MIT
 *
 * Payloads of blocks, of four kinds. src/docs/format.md draws them.
 *
 * The units of a block are weights, or halves of those of 64 bits. They are read as unsigned integers. ordered(x) of
 * floats is x with all bits but the sign inverted if the sign is 1; as two's complement it orders like the floats.
 * ordered(x) of integers is x. The difference of a unit is d = ordered(next) - ordered(base), modulo 2^width.
 */
#ifndef TLC_DELTA_PAYLOAD_H
#define TLC_DELTA_PAYLOAD_H

#include "../../kernels/delta.h"

enum { TLC_DELTA_BLOCK = 65536 }; /* units */

typedef enum tlc_delta_kind {
    TLC_DELTA_SAME = 0,
    TLC_DELTA_SPARSE = 1,
    TLC_DELTA_DENSE = 2,
    TLC_DELTA_RAW = 3
} tlc_delta_kind;

/* The weights of a block. */
typedef struct tlc_delta_weights {
    const tlc_kernels *k;
    tlc_dtype dtype;
    const uint8_t *base; /* NULL: there is none */
    size_t n;            /* units, at most TLC_DELTA_BLOCK */
} tlc_delta_weights;

/* What weights are made of. dtype: one that deltas know. */
static inline tlc_weight_unit tlc_delta_unit(tlc_dtype dtype)
{
    static const uint8_t units[] = {
        [TLC_F32] = TLC_UNIT_F32,    [TLC_F16] = TLC_UNIT_F16,    [TLC_BF16] = TLC_UNIT_F16,
        [TLC_F8_E4M3] = TLC_UNIT_F8, [TLC_F8_E5M2] = TLC_UNIT_F8, [TLC_F4_E2M1] = TLC_UNIT_F4,
        [TLC_U8] = TLC_UNIT_U8,      [TLC_U4] = TLC_UNIT_U4,      [TLC_I32] = TLC_UNIT_U32,
        [TLC_I64] = TLC_UNIT_HALF,   [TLC_F64] = TLC_UNIT_HALF,
    };

    return (tlc_weight_unit)units[dtype];
}

/* The units first .. end - 1 of a block, of which alone there is memory. */
typedef struct tlc_delta_window {
    size_t first, end;
} tlc_delta_window;

/* Takes the next units of a block that differ, in rising order: their numbers in the block, and by how much, as two's
 * complement of 32 bits. Returns 0 to stop. */
typedef int (*tlc_delta_take_changes)(void *arg, const size_t *index, const uint32_t *difference, size_t count);

enum { TLC_DELTA_TOGETHER = TLC_GOLOMB_LANES };

/* A block of a frame. */
typedef struct tlc_delta_block {
    tlc_delta_weights weights;
    tlc_delta_kind kind;
    const uint8_t *src;
    size_t len;
} tlc_delta_block;
#endif
