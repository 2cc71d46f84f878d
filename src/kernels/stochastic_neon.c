/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

/* +1 or -1 where |x| is above its level, else 0. */
TLC_NEON_INLINE uint32x4_t symbols4(const float *x, const uint32_t *words, float32x4_t max)
{
    float32x4_t value = vld1q_f32(x), u = vcvtq_n_f32_u32(vshrq_n_u32(vld1q_u32(words), 8), 24);
    int32x4_t sent = vreinterpretq_s32_u32(vcltq_f32(vmulq_f32(u, max), vabsq_f32(value)));
    int32x4_t sign = vorrq_s32(vshrq_n_s32(vreinterpretq_s32_f32(value), 31), vdupq_n_s32(1));

    return vreinterpretq_u32_s32(vandq_s32(sign, sent));
}

void tlc_stochastic_encode_neon(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    float32x4_t all_max = vdupq_n_f32(max);
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        uint32x4_t a = symbols4(x + i, words + i, all_max), b = symbols4(x + i + 4, words + i + 4, all_max);
        uint32x4_t c = symbols4(x + i + 8, words + i + 8, all_max), d = symbols4(x + i + 12, words + i + 12, all_max);
        vst1q_s8(q + i, vreinterpretq_s8_u8(tlc_neon_pack16(a, b, c, d)));
    }
    tlc_stochastic_encode_scalar(x + i, words + i, n - i, max, q + i);
}
#endif
