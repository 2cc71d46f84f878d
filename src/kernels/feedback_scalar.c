/* SPDX-License-Identifier: MIT */
#include "kernels.h"

uint32_t tlc_absmax_scalar(const float *g, const float *r, size_t n)
{
    uint32_t max = 0;

    for (size_t i = 0; i < n; i++) {
        float x = !r ? g[i] : !g ? r[i] : g[i] + r[i];
        uint32_t bits = tlc_float_bits(x) & TLC_F32_ABS;
        max = bits > max ? bits : max;
    }
    return max;
}

uint32_t tlc_accumulate_scalar(float *r, const float *g, size_t n)
{
    uint32_t max = 0;

    for (size_t i = 0; i < n; i++) {
        float x = r[i] + g[i];
        uint32_t bits = tlc_float_bits(x) & TLC_F32_ABS;
        max = bits > max ? bits : max;
        r[i] = x;
    }
    return max;
}
