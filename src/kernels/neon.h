/* SPDX-License-Identifier: MIT
 *
 * What several NEON kernels share: four floats or 16 bytes a vector.
 */
#ifndef TLC_NEON_H
#define TLC_NEON_H

#include "kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define TLC_NEON_INLINE static inline __attribute__((TLC_FORCED))

/* The low bytes of 16 integers. */
TLC_NEON_INLINE uint8x16_t tlc_neon_pack16(uint32x4_t a, uint32x4_t b, uint32x4_t c, uint32x4_t d)
{
    uint16x8_t ab = vuzp1q_u16(vreinterpretq_u16_u32(a), vreinterpretq_u16_u32(b));
    uint16x8_t cd = vuzp1q_u16(vreinterpretq_u16_u32(c), vreinterpretq_u16_u32(d));

    return vuzp1q_u8(vreinterpretq_u8_u16(ab), vreinterpretq_u8_u16(cd));
}

/* The bits of 64 bytes that are all ones or all zeros. Eight weighted bytes add up to a byte of bits. */
TLC_NEON_INLINE uint64_t tlc_neon_word(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d)
{
    const uint8x16_t weight = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    uint8x16_t ab = vpaddq_u8(vandq_u8(a, weight), vandq_u8(b, weight));
    uint8x16_t cd = vpaddq_u8(vandq_u8(c, weight), vandq_u8(d, weight));
    uint8x16_t abcd = vpaddq_u8(ab, cd);

    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(abcd, abcd)), 0);
}

/* The bits of |x| as integers order like the magnitudes, and a NaN is above everything. */
TLC_NEON_INLINE uint32x4_t tlc_neon_larger(uint32x4_t max, float32x4_t x)
{
    return vmaxq_u32(max, vreinterpretq_u32_f32(vabsq_f32(x)));
}

/* x with every NaN replaced by TLC_F32_NAN. */
TLC_NEON_INLINE float32x4_t tlc_neon_one_nan(float32x4_t x)
{
    return vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(TLC_F32_NAN)));
}

/* sum + weight * value, both rounded, with one NaN. */
TLC_NEON_INLINE float32x4_t tlc_neon_weighted(float32x4_t sum, float32x4_t value, float32x4_t weight)
{
    float32x4_t product = vmulq_f32(value, weight);

    TLC_OPAQUE(product); /* rounded before it is added */
    float32x4_t x = tlc_neon_one_nan(vaddq_f32(sum, product));
    TLC_OPAQUE(x);
    return x;
}

/* What quantizing with M compares with and subtracts. */
typedef struct tlc_neon_scale {
    float32x4_t t, minus_t;
    uint32x4_t M, minus_M;
} tlc_neon_scale;

TLC_NEON_INLINE tlc_neon_scale tlc_neon_scale_of(float M)
{
    tlc_neon_scale s = {vdupq_n_f32(0.5f * M), vdupq_n_f32(-(0.5f * M)), vdupq_n_u32(tlc_float_bits(M)),
                        vdupq_n_u32(tlc_float_bits(-M))};
    return s;
}

/* The symbols of four values; *x becomes x - M q. Subtracting +0 leaves every x as it is, -0 too. */
TLC_NEON_INLINE uint32x4_t tlc_neon_quantize(float32x4_t *x, tlc_neon_scale s)
{
    uint32x4_t up = vcgtq_f32(*x, s.t), down = vcltq_f32(*x, s.minus_t);
    uint32x4_t sent = vbslq_u32(down, s.minus_M, vandq_u32(up, s.M));

    *x = vsubq_f32(*x, vreinterpretq_f32_u32(sent));
    return vsubq_u32(down, up); /* true is -1 */
}

/* Four of the values x. `has` is a constant in each use; what is not there may be NULL. */
TLC_NEON_INLINE float32x4_t tlc_neon_wanted(tlc_addends has, const float *g, const float *r, size_t at)
{
    if (has == TLC_HAS_BOTH)
        return vaddq_f32(vld1q_f32(g + at), vld1q_f32(r + at));
    return has & TLC_HAS_G ? vld1q_f32(g + at) : vld1q_f32(r + at);
}

/* ternary_encode of 16 values. */
TLC_NEON_INLINE int8x16_t tlc_neon_encode16(tlc_addends has, const float *g, float *r, size_t at, tlc_neon_scale s)
{
    float32x4_t x0 = tlc_neon_wanted(has, g, r, at), x1 = tlc_neon_wanted(has, g, r, at + 4);
    float32x4_t x2 = tlc_neon_wanted(has, g, r, at + 8), x3 = tlc_neon_wanted(has, g, r, at + 12);
    uint32x4_t q0 = tlc_neon_quantize(&x0, s), q1 = tlc_neon_quantize(&x1, s);
    uint32x4_t q2 = tlc_neon_quantize(&x2, s), q3 = tlc_neon_quantize(&x3, s);

    if (has & TLC_HAS_R) {
        vst1q_f32(r + at, x0);
        vst1q_f32(r + at + 4, x1);
        vst1q_f32(r + at + 8, x2);
        vst1q_f32(r + at + 12, x3);
    }
    return vreinterpretq_s8_u8(tlc_neon_pack16(q0, q1, q2, q3));
}

/* Three binary32 patterns, chosen by symbol: a table for each of their four bytes. */
typedef struct tlc_neon_choice {
    uint8x16_t byte[4];
} tlc_neon_choice;

TLC_NEON_INLINE tlc_neon_choice tlc_neon_choice_of(uint32_t minus, uint32_t zero, uint32_t plus)
{
    tlc_neon_choice c;

    for (int k = 0; k < 4; k++) {
        const uint8_t bytes[16] = {(uint8_t)(minus >> 8 * k), (uint8_t)(zero >> 8 * k), (uint8_t)(plus >> 8 * k)};
        c.byte[k] = vld1q_u8(bytes);
    }
    return c;
}

/* The patterns of 16 symbols, in order: looked up a byte at a time, then put together. */
TLC_NEON_INLINE uint32x4x4_t tlc_neon_choose(tlc_neon_choice c, int8x16_t q)
{
    uint8x16_t index = vreinterpretq_u8_s8(vaddq_s8(q, vdupq_n_s8(1)));
    uint8x16_t b0 = vqtbl1q_u8(c.byte[0], index), b1 = vqtbl1q_u8(c.byte[1], index);
    uint8x16_t b2 = vqtbl1q_u8(c.byte[2], index), b3 = vqtbl1q_u8(c.byte[3], index);
    uint16x8_t low0 = vreinterpretq_u16_u8(vzip1q_u8(b0, b1)), low1 = vreinterpretq_u16_u8(vzip2q_u8(b0, b1));
    uint16x8_t high0 = vreinterpretq_u16_u8(vzip1q_u8(b2, b3)), high1 = vreinterpretq_u16_u8(vzip2q_u8(b2, b3));
    uint32x4x4_t v = {{vreinterpretq_u32_u16(vzip1q_u16(low0, high0)), vreinterpretq_u32_u16(vzip2q_u16(low0, high0)),
                       vreinterpretq_u32_u16(vzip1q_u16(low1, high1)), vreinterpretq_u32_u16(vzip2q_u16(low1, high1))}};
    return v;
}

TLC_NEON_INLINE tlc_neon_choice tlc_neon_decoded_choice(float M)
{
    return tlc_neon_choice_of(tlc_float_bits(-M), 0, tlc_float_bits(M));
}

/* ternary_decode of 16 symbols. */
TLC_NEON_INLINE void tlc_neon_decode16(tlc_neon_choice c, int8x16_t q, float *out)
{
    uint32x4x4_t v = tlc_neon_choose(c, q);

    vst1q_f32(out, vreinterpretq_f32_u32(v.val[0]));
    vst1q_f32(out + 4, vreinterpretq_f32_u32(v.val[1]));
    vst1q_f32(out + 8, vreinterpretq_f32_u32(v.val[2]));
    vst1q_f32(out + 12, vreinterpretq_f32_u32(v.val[3]));
}

/* The pattern for a symbol 0, which is neither w nor -w. It marks the sums that stay: adding -0 would make a NaN
 * quiet. */
TLC_NEON_INLINE uint32_t tlc_neon_keep(float w)
{
    return tlc_float_bits(w) ^ 1;
}

TLC_NEON_INLINE tlc_neon_choice tlc_neon_added_choice(float w)
{
    return tlc_neon_choice_of(tlc_float_bits(-w), tlc_neon_keep(w), tlc_float_bits(w));
}

TLC_NEON_INLINE float32x4_t tlc_neon_added(float32x4_t sum, uint32x4_t v, uint32x4_t keep)
{
    float32x4_t added = vaddq_f32(sum, vreinterpretq_f32_u32(v));

    TLC_OPAQUE(added);
    return vbslq_f32(vceqq_u32(v, keep), sum, added);
}

/* ternary_add of 16 symbols; c is tlc_neon_added_choice(w), keep is tlc_neon_keep(w) in all lanes. */
TLC_NEON_INLINE void tlc_neon_add16(tlc_neon_choice c, uint32x4_t keep, int8x16_t q, float *sum)
{
    uint32x4x4_t v = tlc_neon_choose(c, q);
    float32x4_t sum0 = vld1q_f32(sum), sum1 = vld1q_f32(sum + 4), sum2 = vld1q_f32(sum + 8), sum3 = vld1q_f32(sum + 12);

    vst1q_f32(sum, tlc_neon_added(sum0, v.val[0], keep));
    vst1q_f32(sum + 4, tlc_neon_added(sum1, v.val[1], keep));
    vst1q_f32(sum + 8, tlc_neon_added(sum2, v.val[2], keep));
    vst1q_f32(sum + 12, tlc_neon_added(sum3, v.val[3], keep));
}

/* Horner's rule on five vectors of symbols. */
TLC_NEON_INLINE uint8x16_t tlc_neon_quartic(int8x16_t q0, int8x16_t q1, int8x16_t q2, int8x16_t q3, int8x16_t q4)
{
    const int8x16_t three = vdupq_n_s8(3);
    int8x16_t value = vmlaq_s8(q1, q0, three);

    value = vmlaq_s8(q2, value, three);
    value = vmlaq_s8(q3, value, three);
    value = vmlaq_s8(q4, value, three);
    return vaddq_u8(vreinterpretq_u8_s8(value), vdupq_n_u8(TLC_QUARTIC_ZERO));
}

/* Takes the digit of this power out of the balanced ternary number *rest. The lower digits make at most `below`. */
TLC_NEON_INLINE int8x16_t tlc_neon_digit(int8x16_t *rest, int8_t power, int8_t below)
{
    uint8x16_t up = vcgtq_s8(*rest, vdupq_n_s8(below)), down = vcltq_s8(*rest, vdupq_n_s8((int8_t)-below));
    int8x16_t q = vreinterpretq_s8_u8(vsubq_u8(down, up));

    *rest = vmlsq_s8(*rest, q, vdupq_n_s8(power));
    return q;
}

/* quartic_decode of 16 bytes. A byte minus 121 is its symbols as a balanced ternary number, so no division is
 * needed. */
TLC_NEON_INLINE void tlc_neon_symbols(uint8x16_t bytes, int8x16_t q[5])
{
    int8x16_t rest = vreinterpretq_s8_u8(vsubq_u8(bytes, vdupq_n_u8(TLC_QUARTIC_ZERO)));

    q[0] = tlc_neon_digit(&rest, 81, 40);
    q[1] = tlc_neon_digit(&rest, 27, 13);
    q[2] = tlc_neon_digit(&rest, 9, 4);
    q[3] = tlc_neon_digit(&rest, 3, 1);
    q[4] = rest;
}
#endif
#endif
