/* SPDX-License-Identifier: MIT
 *
 * Random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011). The
 * random word of a value is a function of seed, step and the index of the value. So it is the same for any thread, ISA,
 * machine and order.
 */
#ifndef TLC_RNG_H
#define TLC_RNG_H

#include "float_rules.h"

enum { TLC_PHILOX_ROUNDS = 10 };
#define TLC_PHILOX_M0 0xd2511f53u /* multipliers, and Weyl increments of the key */
#define TLC_PHILOX_M1 0xcd9e8d57u
#define TLC_PHILOX_W0 0x9e3779b9u
#define TLC_PHILOX_W1 0xbb67ae85u

/* The words of the four values from 4 * counter on. */
static inline void tlc_philox_words(uint64_t seed, uint64_t step, uint64_t counter, uint32_t words[4])
{
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = (uint32_t)step, c3 = (uint32_t)(step >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < TLC_PHILOX_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)TLC_PHILOX_M0 * c0, p1 = (uint64_t)TLC_PHILOX_M1 * c2;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += TLC_PHILOX_W0;
        k1 += TLC_PHILOX_W1;
    }
    words[0] = c0;
    words[1] = c1;
    words[2] = c2;
    words[3] = c3;
}

/* The upper 24 bits of a word as an exact fraction, 0 <= u < 1. */
static inline float tlc_uniform(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}
#endif
