/* SPDX-License-Identifier: MIT */
#include "../common/rng.h"
#include "kernels.h"

void tlc_stochastic_encode_scalar(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    for (size_t i = 0; i < n; i++) {
        float magnitude = tlc_bits_float(tlc_float_bits(x[i]) & TLC_F32_ABS);
        q[i] = (int8_t)(tlc_uniform(words[i]) * max < magnitude ? x[i] < 0 ? -1 : 1 : 0);
    }
}
