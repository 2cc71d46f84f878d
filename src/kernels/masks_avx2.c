/* SPDX-License-Identifier: MIT */
#include "kernels.h"

uint64_t tlc_symbol_masks_avx2(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    return tlc_symbol_masks_scalar(q, n, nonzero, negative);
}

uint64_t tlc_threshold_mask_avx2(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least, uint64_t *mask)
{
    return tlc_threshold_mask_scalar(x, n, flip, keep, least, mask);
}

uint64_t tlc_random_mask_avx2(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask)
{
    return tlc_random_mask_scalar(x, words, n, limit, mask);
}
