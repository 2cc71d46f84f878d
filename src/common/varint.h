/* SPDX-License-Identifier: MIT
 *
 * Whole numbers as LEB128: 7 bits a byte, least significant first. Bit 7 says that another byte follows. Only the
 * shortest code of a number is written and accepted.
 */
#ifndef TLC_VARINT_H
#define TLC_VARINT_H

#include "float_rules.h"

enum { TLC_VARINT_MAX = 10 }; /* bytes of the largest 64-bit number */

static inline size_t tlc_varint_size(uint64_t v)
{
    size_t size = 1;

    while (v >>= 7)
        size++;
    return size;
}

/* Returns the bytes written. */
static inline size_t tlc_varint_write(uint8_t *dst, uint64_t v)
{
    size_t at = 0;

    for (; v > 0x7f; v >>= 7)
        dst[at++] = (uint8_t)(v | 0x80);
    dst[at++] = (uint8_t)v;
    return at;
}

/* Reads the number at src + *at, and moves *at past it. Returns 0 if it is truncated, has more than 64 bits, or is
 * not the shortest code. */
static inline int tlc_varint_read(const uint8_t *src, size_t len, size_t *at, uint64_t *value)
{
    uint64_t v = 0;

    for (unsigned shift = 0; *at < len && shift < 64; shift += 7) {
        uint8_t byte = src[(*at)++];

        if (shift == 63 && byte > 1)
            return 0;
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        *value = v;
        return byte || !shift;
    }
    return 0;
}
#endif
