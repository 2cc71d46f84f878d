/* SPDX-License-Identifier: MIT */
#include "kernels.h"

uint64_t tlc_symbol_masks_scalar(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += 64) {
        uint64_t any = 0, minus = 0;

        for (size_t k = 0; k < 64 && i + k < n; k++) {
            any |= (uint64_t)(q[i + k] != 0) << k;
            minus |= (uint64_t)(q[i + k] < 0) << k;
            count += q[i + k] != 0;
        }
        nonzero[i / 64] = any;
        if (negative)
            negative[i / 64] = minus;
    }
    return count;
}

uint64_t tlc_threshold_mask_scalar(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least, uint64_t *mask)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t is = (int32_t)((tlc_float_bits(x[i]) ^ flip) & keep) >= least;

        mask[i / 64] = (i % 64 ? mask[i / 64] : 0) | is << i % 64;
        count += is;
    }
    return count;
}

uint64_t tlc_random_mask_scalar(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t is = words[i] >> 8 < limit && x[i] != 0;

        mask[i / 64] = (i % 64 ? mask[i / 64] : 0) | is << i % 64;
        count += is;
    }
    return count;
}
