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
 *  values    id of the stage that makes values out of symbols: 1 raw, 2 ternary
 *  coding    bits 0-3 id of the packing stage (0 none, 1 quartic), bits 4-7 id of the shrinking stage (0 none, 1 zerorun)
 *  n, B      LEB128: 7 bits a byte, least significant first, bit 7 says that another follows; the shortest form only
 *  scalars   f32 each, finite and with the sign bit clear: ternary M; raw none
 *  payload   unblocked: the bytes that the stages make of all n values.
 *            blocked: for each of the ceil(n / B) blocks {scalars, u32 payload length}, then the payloads in order.
 *  checksum  u32: the low 32 bits of XXH3_64bits of all bytes before it
 *
 * n = 0 is a header alone (with B if blocked, and the checksum if asked for): 5 bytes. An unblocked ternary header is
 * 4 + 1..4 + 4 bytes for n < 2^28. The frame does not hold its own length.
 */
#ifndef TLC_FRAME_H
#define TLC_FRAME_H

#include "codec.h"

#define TLC_FRAME_MIN 5 /* the shortest frame: a header of n = 0 */
#define TLC_CHECKSUM_SIZE 4

typedef struct tlc_frame {
    tlc_codec codec;        /* the decoding form, block included */
    tlc_dtype dtype;
    int checksum;
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

/* Appends the checksum of the len bytes at frame. */
void tlc_frame_seal(uint8_t *frame, size_t len);

/* Reads any bytes as far as the payload's first byte, in the order of design.md section 4; n, if not NULL, is the n that
 * the caller expects. The payload itself is not looked at. */
tlc_status tlc_frame_read(tlc_frame *f, const void *src, size_t len, const size_t *n);

uint32_t tlc_checksum(const void *bytes, size_t len); /* low 32 bits of XXH3_64bits */

/* Unaligned little-endian access. */
static inline void tlc_store32(void *dst, uint32_t v)
{
    uint8_t *p = dst;
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static inline void tlc_store64(void *dst, uint64_t v)
{
    tlc_store32(dst, (uint32_t)v);
    tlc_store32((uint8_t *)dst + 4, (uint32_t)(v >> 32));
}

static inline uint32_t tlc_load32(const void *src)
{
    const uint8_t *p = src;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t tlc_load64(const void *src)
{
    return tlc_load32(src) | (uint64_t)tlc_load32((const uint8_t *)src + 4) << 32;
}
#endif
