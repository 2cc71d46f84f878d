/* SPDX-License-Identifier: MIT
 *
 * Random numbers of the experiment: SplitMix64, whose state is one number.
 */
#ifndef TRAIN_RANDOM_H
#define TRAIN_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

/* A float in [0, 1). */
static inline float random_unit(uint64_t *state)
{
    return (float)(random_next(state) >> 40) * 0x1p-24f;
}

/* A number below n. n is far below 2^64, so the bias does not matter. */
static inline uint32_t random_below(uint64_t *state, uint32_t n)
{
    return (uint32_t)(random_next(state) % n);
}
#endif
