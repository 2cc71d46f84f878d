/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_values_add_scalar(const float *v, size_t n, float weight, int skip, float *sum)
{
    for (size_t i = 0; i < n; i++) {
        float x = sum[i] + weight * v[i];

        if (!skip || v[i] != 0)
            sum[i] = x == x ? x : tlc_bits_float(TLC_F32_NAN);
    }
}
