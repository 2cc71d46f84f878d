/* SPDX-License-Identifier: MIT
 *
 * Unaligned little-endian access, and bits of words.
 */
#ifndef TLC_BYTES_H
#define TLC_BYTES_H

#include "float_rules.h"

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

/* Do two pieces of memory of this size share a part, without being the same? */
static inline int tlc_overlap(const void *a, const void *b, size_t size)
{
    return a != b && (uintptr_t)a < (uintptr_t)b + size && (uintptr_t)b < (uintptr_t)a + size;
}

/* How many bits are 1. Without a flag for the instruction, __builtin_popcountll would be a call. */
static inline unsigned tlc_count_ones(uint64_t x)
{
    x -= x >> 1 & UINT64_C(0x5555555555555555);
    x = (x & UINT64_C(0x3333333333333333)) + (x >> 2 & UINT64_C(0x3333333333333333));
    x = (x + (x >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (unsigned)(x * UINT64_C(0x0101010101010101) >> 56);
}
#endif
