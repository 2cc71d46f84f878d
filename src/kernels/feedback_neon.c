/* SPDX-License-Identifier: MIT */
#include "kernels.h"

#if defined(__aarch64__)
#include "neon.h"

TLC_NEON_INLINE uint32x4_t larger(uint32x4_t max, float32x4_t x)
{
    return vmaxq_u32(max, vreinterpretq_u32_f32(vabsq_f32(x)));
}

TLC_NEON_INLINE uint32_t largest(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d)
{
    return vmaxvq_u32(vmaxq_u32(vmaxq_u32(a, b), vmaxq_u32(c, d)));
}

TLC_NEON_INLINE uint32_t absmax(const float *g, const float *r, size_t n, int has_g, int has_r)
{
    uint32x4_t m0 = vdupq_n_u32(0), m1 = m0, m2 = m0, m3 = m0;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        m0 = larger(m0, tlc_neon_wanted(g, r, i, has_g, has_r));
        m1 = larger(m1, tlc_neon_wanted(g, r, i + 4, has_g, has_r));
        m2 = larger(m2, tlc_neon_wanted(g, r, i + 8, has_g, has_r));
        m3 = larger(m3, tlc_neon_wanted(g, r, i + 12, has_g, has_r));
    }
    uint32_t max = largest(m0, m1, m2, m3), rest = tlc_absmax_scalar(has_g ? g + i : NULL, has_r ? r + i : NULL, n - i);
    return max > rest ? max : rest;
}

uint32_t tlc_absmax_neon(const float *g, const float *r, size_t n)
{
    return g && r ? absmax(g, r, n, 1, 1) : g ? absmax(g, r, n, 1, 0) : absmax(g, r, n, 0, 1);
}

uint32_t tlc_accumulate_neon(float *r, const float *g, size_t n)
{
    uint32x4_t m0 = vdupq_n_u32(0), m1 = m0, m2 = m0, m3 = m0;
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        float32x4_t x0 = tlc_neon_wanted(r, g, i, 1, 1), x1 = tlc_neon_wanted(r, g, i + 4, 1, 1);
        float32x4_t x2 = tlc_neon_wanted(r, g, i + 8, 1, 1), x3 = tlc_neon_wanted(r, g, i + 12, 1, 1);

        vst1q_f32(r + i, x0);
        vst1q_f32(r + i + 4, x1);
        vst1q_f32(r + i + 8, x2);
        vst1q_f32(r + i + 12, x3);
        m0 = larger(m0, x0);
        m1 = larger(m1, x1);
        m2 = larger(m2, x2);
        m3 = larger(m3, x3);
    }
    uint32_t max = largest(m0, m1, m2, m3), rest = tlc_accumulate_scalar(r + i, g + i, n - i);
    return max > rest ? max : rest;
}
#endif
