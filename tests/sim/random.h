/* SPDX-License-Identifier: MIT
 *
 * What happens in a run. Each decision is a function of the seed and of what it is about, and not of what was decided
 * before. So the fate of a message does not depend on the order in which messages arrive.
 */
#ifndef TLC_SIM_RANDOM_H
#define TLC_SIM_RANDOM_H

#include <stdint.h>

/* What is decided. */
typedef enum topic {
    ABOUT_FATE, /* of a message: dropped, altered, cut, repeated */
    ABOUT_DAMAGE,
    ABOUT_DELAY,
    ABOUT_POLICY, /* what a driver does about a push that did not come whole */
    ABOUT_VALUES,
    ABOUT_NONFINITE,
    ABOUT_WEIGHT,
    ABOUT_ROUND, /* who takes part */
    ABOUT_DELTA,
    ABOUT_LATE,
    ABOUT_ABSENCE,
    ABOUT_DEATH,
    ABOUT_RECOVERY,
    ABOUT_BOUNDARY, /* what is done between two steps */
    ABOUT_CODEC,
    ABOUT_MASK,
    ABOUT_WRONG_MESSAGE,
    ABOUT_WRONG_CALL,
    ABOUT_ISA,
    ABOUT_TASKS,
    ABOUT_MODE,
    ABOUT_DTYPE,
    ABOUT_JUNK,
    ABOUT_JOIN,
    ABOUT_FORGERY,
    ABOUT_GRAPH,
    ABOUT_HELLO
} topic;

/* SplitMix64's last step (Steele, Lea, Flood, 2014). */
static inline uint64_t mixed(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static inline uint64_t drawn(uint64_t seed, topic about, uint64_t a, uint64_t b, uint64_t c)
{
    return mixed(mixed(mixed(mixed(seed ^ (uint64_t)about << 56) ^ a) ^ b) ^ c);
}

/* True for `of_1024` of 1024 draws. Uses the high bits. */
static inline int falls(uint64_t draw, uint32_t of_1024)
{
    return (draw >> 54) < of_1024;
}

/* 0 <= result < n. Uses the low bits. */
static inline uint64_t below(uint64_t draw, uint64_t n)
{
    return (draw & UINT64_C(0xffffffff)) * n >> 32;
}
#endif
