/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

TLC_NEON_INLINE uint32_t largest(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d)
{
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(a, b), vmaxq_u32(c, d)));
}

TLC_NEON_INLINE uint32_t absmax(tlc_addends has, const float *g, const float *r, size_t n)
{
    uint32x4_t m0 = vdupq_n_u32(0), m1 = m0, m2 = m0, m3 = m0;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        m0 = tlc_neon_larger(m0, tlc_neon_wanted(has, g, r, i));
        m1 = tlc_neon_larger(m1, tlc_neon_wanted(has, g, r, i + 4));
        m2 = tlc_neon_larger(m2, tlc_neon_wanted(has, g, r, i + 8));
        m3 = tlc_neon_larger(m3, tlc_neon_wanted(has, g, r, i + 12));
    }
    uint32_t max = largest(m0, m1, m2, m3),
             rest = tlc_absmax_scalar(has & TLC_HAS_G ? g + i : NULL, has & TLC_HAS_R ? r + i : NULL, n - i);
    return max > rest ? max : rest;
}

uint32_t tlc_absmax_neon(const float *g, const float *r, size_t n)
{
    if (!r)
        return absmax(TLC_HAS_G, g, NULL, n);
    if (!g)
        return absmax(TLC_HAS_R, NULL, r, n);
    return absmax(TLC_HAS_BOTH, g, r, n);
}

uint32_t tlc_accumulate_neon(float *r, const float *g, size_t n)
{
    uint32x4_t m0 = vdupq_n_u32(0), m1 = m0, m2 = m0, m3 = m0;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        float32x4_t x0 = tlc_neon_wanted(TLC_HAS_BOTH, r, g, i), x1 = tlc_neon_wanted(TLC_HAS_BOTH, r, g, i + 4);
        float32x4_t x2 = tlc_neon_wanted(TLC_HAS_BOTH, r, g, i + 8), x3 = tlc_neon_wanted(TLC_HAS_BOTH, r, g, i + 12);

        vst1q_f32(r + i, x0);
        vst1q_f32(r + i + 4, x1);
        vst1q_f32(r + i + 8, x2);
        vst1q_f32(r + i + 12, x3);
        m0 = tlc_neon_larger(m0, x0);
        m1 = tlc_neon_larger(m1, x1);
        m2 = tlc_neon_larger(m2, x2);
        m3 = tlc_neon_larger(m3, x3);
    }
    uint32_t max = largest(m0, m1, m2, m3), rest = tlc_accumulate_scalar(r + i, g + i, n - i);
    return max > rest ? max : rest;
}
#endif
