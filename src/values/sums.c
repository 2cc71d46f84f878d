/* SPDX-License-Identifier: MIT */
#include "sums.h"
#include "../kernels/kernels.h"

enum { LANES = 16 };

static double fold(double lane[LANES])
{
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

double tlc_masked_sum(const float *x, uint32_t keep, const uint64_t *mask, size_t n)
{
    double lane[LANES] = {0};

    for (size_t i = 0; i < n; i += 64)
        for (uint64_t bits = mask[i / 64]; bits; bits &= bits - 1) {
            size_t at = i + (size_t)__builtin_ctzll(bits);
            lane[at % LANES] += (double)tlc_bits_float(tlc_float_bits(x[at]) & keep);
        }
    return fold(lane);
}

void tlc_running_add(tlc_running_sum *s, uint64_t index, float x)
{
    if (index / TLC_SUM_CHUNK != s->chunk) {
        s->before += fold(s->lane);
        memset(s->lane, 0, sizeof s->lane);
        s->chunk = index / TLC_SUM_CHUNK;
    }
    s->lane[index % LANES] += (double)x;
    s->count++;
}

double tlc_running_total(tlc_running_sum *s)
{
    return s->before + fold(s->lane);
}
