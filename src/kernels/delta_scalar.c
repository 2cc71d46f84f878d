/* SPDX-License-Identifier: MIT */
#include "delta.h"

TLC_DELTA_INLINE uint64_t delta_scalar(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                                       uint64_t *negative, uint64_t *large, unsigned width)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += 64)
        count += tlc_delta_word(base, next, i, n - i < 64 ? n - i : 64, changed, negative, large, width);
    return count;
}

uint64_t tlc_delta16_scalar(const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                            uint64_t *large)
{
    return delta_scalar(base, next, n, changed, negative, large, 16);
}

uint64_t tlc_delta32_scalar(const void *base, const void *next, size_t n, uint64_t *changed, uint64_t *negative,
                            uint64_t *large)
{
    return delta_scalar(base, next, n, changed, negative, large, 32);
}
