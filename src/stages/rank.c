/* SPDX-License-Identifier: MIT */
#include "rank.h"

/* The largest number that rank values are not below, bit by bit from the top. */
uint32_t tlc_ranked(const uint32_t *values, size_t count, size_t rank)
{
    uint32_t found = 0;

    for (uint32_t bit = 1u << 30; bit; bit >>= 1) {
        const int32_t more = (int32_t)(found | bit); /* signed, as vectors compare */
        uint32_t reached = 0;
        for (size_t i = 0; i < count; i++)
            reached += (int32_t)values[i] >= more;
        found |= reached >= rank ? bit : 0;
    }
    return found;
}
