/* SPDX-License-Identifier: MIT */
#include "convert.h"

void tlc_f16_to_f32_scalar(const void *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tlc_widen_f16(tlc_load16((const uint8_t *)in + 2 * i));
}

void tlc_f32_to_f16_scalar(const float *in, size_t n, void *out)
{
    for (size_t i = 0; i < n; i++)
        tlc_store16((uint8_t *)out + 2 * i, tlc_narrow_f16(in[i]));
}

void tlc_bf16_to_f32_scalar(const void *in, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = tlc_widen_bf16(tlc_load16((const uint8_t *)in + 2 * i));
}

void tlc_f32_to_bf16_scalar(const float *in, size_t n, void *out)
{
    for (size_t i = 0; i < n; i++)
        tlc_store16((uint8_t *)out + 2 * i, tlc_narrow_bf16(in[i]));
}
