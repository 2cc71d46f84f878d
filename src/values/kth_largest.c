/* SPDX-License-Identifier: MIT */
#include "kth_largest.h"

/* The result is the largest number x for which at least k numbers are >= x. Its bits are found one by one, from the
 * top. */
uint32_t tlc_kth_largest(const uint32_t *numbers, size_t count, size_t k, uint32_t lowest)
{
    uint32_t found = 0;

    for (uint32_t bit = 1u << 30; bit >= lowest; bit >>= 1) {
        const int32_t more = (int32_t)(found | bit); /* signed, because vector comparisons are */
        uint32_t reached = 0;
        for (size_t i = 0; i < count; i++)
            reached += (int32_t)numbers[i] >= more;
        found |= reached >= k ? bit : 0;
    }
    return found;
}
