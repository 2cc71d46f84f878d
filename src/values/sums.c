/* SPDX-License-Identifier: MIT */
#include "sums.h"

double tlc_fold_lanes(double lane[TLC_SUM_LANES])
{
    for (size_t half = TLC_SUM_LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

double tlc_masked_sum(const float *x, uint32_t keep, const uint64_t *mask, size_t n)
{
    double lane[TLC_SUM_LANES] = {0};

    for (size_t i = 0; i < n; i += 64)
        for (uint64_t bits = mask[i / 64]; bits; bits &= bits - 1) {
            size_t at = i + (size_t)__builtin_ctzll(bits);
            lane[at % TLC_SUM_LANES] += (double)tlc_bits_float(tlc_float_bits(x[at]) & keep);
        }
    return tlc_fold_lanes(lane);
}
