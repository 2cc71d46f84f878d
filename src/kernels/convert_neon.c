/* SPDX-License-Identifier: MIT
 *
 * FCVTL and FCVTN treat NaNs as convert.h does: they set the quiet bit, keep the sign, and shift or cut the payload.
 */
#include "neon.h"

#if defined(__aarch64__)

void tlc_f16_to_f32_neon(const void *in, size_t n, float *out)
{
    const uint8_t *from = in;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        float16x8_t half = vreinterpretq_f16_u8(vld1q_u8(from + 2 * i));

        vst1q_f32(out + i, vcvt_f32_f16(vget_low_f16(half)));
        vst1q_f32(out + i + 4, vcvt_high_f32_f16(half));
    }
    tlc_f16_to_f32_scalar(from + 2 * i, n - i, out + i);
}

void tlc_f32_to_f16_neon(const float *in, size_t n, void *out)
{
    uint8_t *to = out;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        float16x4_t low = vcvt_f16_f32(vld1q_f32(in + i));

        vst1q_u8(to + 2 * i, vreinterpretq_u8_f16(vcvt_high_f16_f32(low, vld1q_f32(in + i + 4))));
    }
    tlc_f32_to_f16_scalar(in + i, n - i, to + 2 * i);
}

void tlc_bf16_to_f32_neon(const void *in, size_t n, float *out)
{
    const uint16x8_t infinity = vdupq_n_u16(TLC_F32_INF >> 16), quiet = vdupq_n_u16(0x40);
    const uint8_t *from = in;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        uint16x8_t half = vreinterpretq_u16_u8(vld1q_u8(from + 2 * i));
        uint16x8_t nan = vcgtq_u16(vandq_u16(half, vdupq_n_u16(0x7fff)), infinity);

        half = vorrq_u16(half, vandq_u16(nan, quiet));
        vst1q_f32(out + i, vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(half), 16)));
        vst1q_f32(out + i + 4, vreinterpretq_f32_u32(vshll_high_n_u16(half, 16)));
    }
    tlc_bf16_to_f32_scalar(from + 2 * i, n - i, out + i);
}

/* Rounds half to even: adds just under half of the last place, and the last place. The result is in the upper halves.
 * Those are taken out by UZP2, as gcc 14 makes of ADDHN with 0x7fff a RADDHN, which adds 0x8000. */
TLC_NEON_INLINE uint16x8_t rounded(uint32x4_t bits)
{
    uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));

    return vreinterpretq_u16_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd));
}

void tlc_f32_to_bf16_neon(const float *in, size_t n, void *out)
{
    uint8_t *to = out;
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        float32x4_t low = vld1q_f32(in + i), high = vld1q_f32(in + i + 4);
        uint32x4_t low_bits = vreinterpretq_u32_f32(low), high_bits = vreinterpretq_u32_f32(high);
        uint16x8_t half = vuzp2q_u16(rounded(low_bits), rounded(high_bits));
        uint16x8_t number = vuzp1q_u16(vreinterpretq_u16_u32(vceqq_f32(low, low)),
                                       vreinterpretq_u16_u32(vceqq_f32(high, high)));
        uint16x8_t quiet = vorrq_u16(vuzp2q_u16(vreinterpretq_u16_u32(low_bits), vreinterpretq_u16_u32(high_bits)),
                                     vdupq_n_u16(0x40));

        vst1q_u8(to + 2 * i, vreinterpretq_u8_u16(vbslq_u16(number, half, quiet)));
    }
    tlc_f32_to_bf16_scalar(in + i, n - i, to + 2 * i);
}
#endif
