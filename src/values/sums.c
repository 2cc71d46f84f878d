/* SPDX-License-Identifier: MIT */
#include "sums.h"

double tlc_masked_sum(const float *x, uint32_t keep, const uint64_t *mask, size_t n)
{
    double lane[16] = {0};

    for (size_t i = 0; i < n; i += 64)
        for (uint64_t bits = mask[i / 64]; bits; bits &= bits - 1) {
            size_t at = i + (size_t)__builtin_ctzll(bits);
            lane[at % 16] += (double)tlc_bits_float(tlc_float_bits(x[at]) & keep);
        }
    for (size_t half = 8; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}
