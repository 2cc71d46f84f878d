/* SPDX-License-Identifier: MIT
 *
 * The wire header of a frame. Everything is little-endian.
 *
 *      0        1        2        3        4 ..
 *  +--------+--------+--------+--------+-----------+------------+-----------------+-------------+------------+
 *  |version | flags  | values | coding | n         | B, if      | scalars, if not | payload     | checksum,  |
 *  |   1    |        |        |        | 1..10 B   | blocked    | blocked, n > 0  |             | if any     |
 *  +--------+--------+--------+--------+-----------+------------+-----------------+-------------+------------+
 *
 *  version   TLC_FRAME_VERSION
 *  flags     bits 0-1 dtype of the gradients (0 f32, 1 f16, 2 bf16), bit 2 checksum, bit 3 blocked, bits 4-7 zero
 *  values    what makes values: 1 raw, 2 ternary (stochastic-ternary too), 3 sparse-binary, 4 natural, 5 int8, 6 qsgd,
 *            7 onebit, 8 topk, 9 random-sparse
 *  coding    ternary, sparse-binary: bits 0-3 packing (1 quartic, 2 golomb), bits 4-7 shrinking (0 none, 1 zerorun), or
 *            1 after ternary and golomb: the payload has its second form, quartic bytes (not if blocked);
 *            natural: bits 0-6 shift, bit 7 set for 9 bits; qsgd: 0 for 8 bits, 1 for 4; others 0
 *  n, B      LEB128: 7 bits a byte, least significant first, bit 7 says that another follows; the shortest form only
 *  scalars   f32 each, finite: ternary M, int8 and qsgd the largest magnitude (sign bit clear); sparse-binary its mean,
 *            onebit the mean of x >= 0, then that of x < 0; others none
 *  payload   unblocked: the bytes that the stages make of all n values.
 *            blocked: for each of the ceil(n / B) blocks {scalars, u32 payload length; bit 31: its second form}, then
 *            the payloads in order.
 *            What each stage's payload is, its file in stages/ draws.
 *  checksum  u32: the low 32 bits of XXH3_64bits of all bytes before it
 *
 * n = 0 is a header alone (with B if blocked, and the checksum if asked for): 5 bytes. An unblocked header is 4 +
 * 1..4 + 4 bytes per scalar for n < 2^28. The frame does not hold its own length.
 */
#ifndef TLC_FRAME_H
#define TLC_FRAME_H

#include "../common/bytes.h"
#include "../codec/codec.h"

#define TLC_FRAME_MIN 5 /* the shortest frame: a header of n = 0 */
#define TLC_CHECKSUM_SIZE 4
#define TLC_FRAME_CHECKSUM 0x04u /* the flag */

typedef struct tlc_frame {
    tlc_codec codec;        /* the decoding form, block included */
    tlc_dtype dtype;
    int checksum;
    int second;             /* unblocked: the payload has its coder's second form */
    uint64_t n;
    size_t header_size;     /* scalars included */
    float scalars[TLC_MAX_SCALARS];
    const uint8_t *payload;
    size_t payload_size;
} tlc_frame;

/* Bytes of the header before the payload, scalars included. */
size_t tlc_frame_header_size(const tlc_codec *codec, size_t n);

/* Writes the header; returns tlc_frame_header_size bytes. */
size_t tlc_frame_write(uint8_t *dst, const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n,
                       const float *scalars);

/* Says in a header that was written that the payload has its coder's second form. */
void tlc_frame_mark_second(uint8_t *dst, const tlc_codec *codec);

/* Appends the checksum of the len bytes at frame. */
void tlc_frame_seal(uint8_t *frame, size_t len);

/* Reads any bytes as far as the payload's first byte, in the order of design.md section 4; n, if not NULL, is the n that
 * the caller expects. The payload itself is not looked at. */
tlc_status tlc_frame_read(tlc_frame *f, const void *src, size_t len, const size_t *n);

uint32_t tlc_checksum(const void *bytes, size_t len); /* low 32 bits of XXH3_64bits */
#endif
