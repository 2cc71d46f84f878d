/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

TLC_NEON_INLINE void add4(const float *v, float32x4_t weight, uint32x4_t all, float *sum)
{
    float32x4_t value = vld1q_f32(v), old = vld1q_f32(sum);
    uint32x4_t changed = vorrq_u32(all, vmvnq_u32(vceqq_f32(value, vdupq_n_f32(0.0f))));

    vst1q_f32(sum, vbslq_f32(changed, tlc_neon_weighted(old, value, weight), old));
}

void tlc_values_add_neon(const float *v, size_t n, float weight, int skip, float *sum)
{
    const float32x4_t w = vdupq_n_f32(weight);
    const uint32x4_t all = vdupq_n_u32(skip ? 0 : UINT32_MAX);
    size_t i = 0;

    for (; i + 4 <= n; i += 4)
        add4(v + i, w, all, sum + i);
    if (i < n)
        tlc_values_add_scalar(v + i, n - i, weight, skip, sum + i);
}
#endif
