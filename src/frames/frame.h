/* SPDX-License-Identifier: MIT
 *
 * The header of a frame. All numbers are little-endian.
 *
 *      0        1        2        3        4 ..
 *  +--------+--------+--------+--------+-----------+------------+-----------------+-------------+------------+
 *  |version | flags  | values | coding | n         | B, if      | scalars, if not | payload     | checksum,  |
 *  |   1    |        |        |        | 1..10 B   | blocked    | blocked, n > 0  |             | if any     |
 *  +--------+--------+--------+--------+-----------+------------+-----------------+-------------+------------+
 *
 *  version   TLC_FRAME_VERSION
 *  flags     bits 0-1 dtype of the gradients (0 f32, 1 f16, 2 bf16), bit 2 checksum, bit 3 blocked, bits 4-7 zero
 *  values    the quantizer: 1 raw, 2 ternary (stochastic-ternary too), 3 sparse-binary, 4 natural, 5 int8, 6 qsgd,
 *            7 onebit, 8 topk, 9 random-sparse
 *  coding    ternary, sparse-binary: bits 0-3 the packer (1 quartic, 2 golomb), bits 4-7 the shrinker (0 none,
 *            1 zerorun). After ternary and golomb, 1: the payload has quartic bytes, the fallback of golomb (not if
 *            blocked). topk: bits 0-3 0 for a bitmap, 2 for golomb; bits 4-5 0 for values of 32 bits, 1 for 1,
 *            2 for 2.
 *            natural: bits 0-6 shift, bit 7 is 1 for 9 bits. qsgd: 0 for 8 bits, 1 for 4. Others 0
 *  n, B      LEB128 (common/varint.h)
 *  scalars   f32 each, finite: ternary M, int8 and qsgd the largest magnitude (sign bit clear); sparse-binary its mean,
 *            onebit the mean of x >= 0, then that of x < 0; topk with 1 or 2 bits its magnitudes; others
 *            none
 *  payload   unblocked: what the stages make of all n values.
 *            blocked: for each of the ceil(n / B) blocks {scalars, u32 payload length}, then the payloads in order.
 *            Bit 31 of a length: the payload has the bytes of the fallback.
 *            The files in stages/ and positions/ say what each payload is.
 *  checksum  u32: the low 32 bits of XXH3_64bits of all bytes before it
 *
 * For n = 0 there is only a header (with B if blocked) and perhaps a checksum. For n < 2^28 an unblocked header has 5
 * to 8 bytes and 4 for each scalar. The frame does not hold its own length.
 */
#ifndef TLC_FRAME_H
#define TLC_FRAME_H

#include "../codec/codec.h"

#define TLC_FRAME_MIN 5 /* the shortest frame: a header with n = 0 */
#define TLC_CHECKSUM_SIZE 4
#define TLC_FRAME_CHECKSUM 0x04u /* the flag */

#define TLC_BLOCK_FALLBACK (1u << 31) /* in a block's payload length */

/* What is wrong with bytes that should be a frame. */
typedef enum tlc_frame_fault {
    TLC_FAULT_SHORT,    /* for a header */
    TLC_FAULT_OTHER,    /* another version, or no frame */
    TLC_FAULT_CODEC,    /* an unknown one */
    TLC_FAULT_CHECKSUM, /* another one */
    TLC_FAULT_N,        /* is no number */
    TLC_FAULT_SIZE,     /* n is not the caller's */
    TLC_FAULT_FLAGS,    /* reserved ones are set, or the dtype is none */
    TLC_FAULT_BLOCK,    /* no number of values in a block */
    TLC_FAULT_SCALARS,  /* cut, not finite or negative */
    TLC_FAULT_BEHIND,   /* n is 0, but a payload follows */
    TLC_FAULT_TABLE,    /* of blocks: cut */
    TLC_FAULT_UNIT,     /* a payload is not what the codec makes; fault_unit tells which */
    TLC_FAULT_LENGTHS   /* the payloads of the blocks do not end where the frame does */
} tlc_frame_fault;

typedef struct tlc_frame {
    tlc_frame_fault fault; /* if reading or checking failed */
    uint64_t fault_unit;   /* the block, or 0 */
    tlc_codec codec;       /* what a decoder must know, with block */
    tlc_dtype dtype;
    int checksum;
    int fallback; /* unblocked: the payload has the bytes of the fallback */
    uint64_t n;
    size_t header_size; /* scalars included */
    float scalars[TLC_MAX_SCALARS];
    const uint8_t *payload;
    size_t payload_size;
} tlc_frame;

/* Bytes of the header before the payload, scalars included. */
size_t tlc_frame_header_size(const tlc_codec *codec, size_t n);

/* Writes the header; returns tlc_frame_header_size bytes. */
size_t tlc_frame_write(uint8_t *dst, const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n,
                       const float *scalars);

/* Changes a written header: the payload has the bytes of the fallback. */
void tlc_frame_mark_fallback(uint8_t *dst, const tlc_codec *codec);

/* Bytes of one entry of the block table. */
size_t tlc_table_entry_size(const tlc_codec *codec);

/* Appends the checksum of the len bytes at frame. */
void tlc_frame_seal(uint8_t *frame, size_t len);

/* Reads the header, in any bytes. Errors come in the order that threelc.h promises. n: the n that the caller expects,
 * or NULL. The checksum is checked only if check_sum is 1. The payload is not. */
tlc_status tlc_frame_read(tlc_frame *f, const void *src, size_t len, const size_t *n, int check_sum);

/* Are these the scalars of a unit: finite, and not negative unless the quantizer says that they may be? */
int tlc_scalars_valid(const tlc_codec *codec, const float *scalars);

uint32_t tlc_checksum(const void *bytes, size_t len); /* low 32 bits of XXH3_64bits */
#endif
