/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

enum { LANES = 16 };

/* The sums of each side in 16 lanes, two a vector; the largest magnitudes; minus the number of x >= 0. */
typedef struct sides {
    float64x2_t upper[8], lower[8];
    uint32x4_t max, count;
} sides;

/* Adds 0 where a value is of the other side. No sum is -0, so adding 0 changes none. */
TLC_NEON_INLINE void add2(sides *s, int at, float64x2_t x)
{
    const float64x2_t zero = vdupq_n_f64(0);

    s->upper[at] = vaddq_f64(s->upper[at], vmaxq_f64(x, zero));
    s->lower[at] = vaddq_f64(s->lower[at], vminq_f64(x, zero));
}

TLC_NEON_INLINE void add4(sides *s, int at, float32x4_t x)
{
    add2(s, at, vcvt_f64_f32(vget_low_f32(x)));
    add2(s, at + 1, vcvt_high_f64_f32(x));
    s->max = tlc_neon_larger(s->max, x);
    s->count = vaddq_u32(s->count, vcgezq_f32(x));
}

TLC_NEON_INLINE void add16(tlc_addends has, sides *s, const float *g, const float *r, size_t i)
{
    add4(s, 0, tlc_neon_wanted(has, g, r, i));
    add4(s, 2, tlc_neon_wanted(has, g, r, i + 4));
    add4(s, 4, tlc_neon_wanted(has, g, r, i + 8));
    add4(s, 6, tlc_neon_wanted(has, g, r, i + 12));
}

TLC_NEON_INLINE double fold(const float64x2_t lane[8])
{
    float64x2_t a = vaddq_f64(lane[0], lane[4]), b = vaddq_f64(lane[1], lane[5]);
    float64x2_t c = vaddq_f64(lane[2], lane[6]), d = vaddq_f64(lane[3], lane[7]);

    return vaddvq_f64(vaddq_f64(vaddq_f64(a, c), vaddq_f64(b, d)));
}

/* The last values are filled up with zeros, which count as x >= 0. */
TLC_NEON_INLINE uint32_t side_sums(tlc_addends has, const float *g, const float *r, size_t n, double sums[2],
                                   uint32_t *count)
{
    const float64x2_t zero = vdupq_n_f64(0);
    sides s = {{zero, zero, zero, zero, zero, zero, zero, zero},
               {zero, zero, zero, zero, zero, zero, zero, zero},
               vdupq_n_u32(0),
               vdupq_n_u32(0)};
    uint32_t added = 0;
    size_t i = 0;

    for (; n - i >= LANES; i += LANES)
        add16(has, &s, g, r, i);
    if (i < n) {
        float last[2][LANES] = {{0}};

        added = (uint32_t)(LANES - (n - i));
        if (has & TLC_HAS_G)
            tlc_copy_few(last[0], g + i, (n - i) * sizeof(float));
        if (has & TLC_HAS_R)
            tlc_copy_few(last[1], r + i, (n - i) * sizeof(float));
        add16(has, &s, last[0], last[1], 0);
    }
    sums[0] = fold(s.upper);
    sums[1] = fold(s.lower);
    *count = 0 - vaddvq_u32(s.count) - added;
    return vmaxvq_u32(s.max);
}

uint32_t tlc_side_sums_neon(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    if (!r)
        return side_sums(TLC_HAS_G, g, NULL, n, sums, count);
    if (!g)
        return side_sums(TLC_HAS_R, NULL, r, n, sums, count);
    return side_sums(TLC_HAS_BOTH, g, r, n, sums, count);
}

/* All ones where x >= 0. The residuals of four values go to r. */
TLC_NEON_INLINE uint32x4_t encode4(tlc_addends has, const float *g, float *r, size_t i, const float32x4_t mean[2])
{
    float32x4_t x = tlc_neon_wanted(has, g, r, i);
    uint32x4_t side = vcgezq_f32(x);

    if (has & TLC_HAS_R)
        vst1q_f32(r + i, vsubq_f32(x, vbslq_f32(side, mean[0], mean[1])));
    return side;
}

/* The bits of 16 values. Eight weighted bytes add up to a byte of bits. */
TLC_NEON_INLINE uint16_t encode16(tlc_addends has, const float *g, float *r, size_t i, const float32x4_t mean[2])
{
    const uint8x16_t weight = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
    uint32x4_t a = encode4(has, g, r, i, mean), b = encode4(has, g, r, i + 4, mean);
    uint32x4_t c = encode4(has, g, r, i + 8, mean), d = encode4(has, g, r, i + 12, mean);
    uint8x16_t side = vandq_u8(tlc_neon_pack16(a, b, c, d), weight);

    side = vpaddq_u8(side, side);
    side = vpaddq_u8(side, side);
    return vgetq_lane_u16(vreinterpretq_u16_u8(vpaddq_u8(side, side)), 0);
}

TLC_NEON_INLINE void encode(tlc_addends has, const float *g, float *r, size_t n, const float *mean, uint8_t *bits)
{
    const float32x4_t means[2] = {vdupq_n_f32(has & TLC_HAS_R ? mean[0] : 0),
                                  vdupq_n_f32(has & TLC_HAS_R ? mean[1] : 0)};
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        uint16_t two = encode16(has, g, r, i, means);
        memcpy(bits + i / 8, &two, sizeof two);
    }
    tlc_onebit_encode_scalar(has & TLC_HAS_G ? g + i : NULL, has & TLC_HAS_R ? r + i : NULL, n - i, mean, bits + i / 8);
}

void tlc_onebit_encode_neon(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits)
{
    TLC_WITH_ADDENDS(encode, g, r, n, mean, bits);
}

typedef struct means {
    float32x4_t upper, lower;
} means;

TLC_NEON_INLINE means means_of(const float mean[2])
{
    return (means){vdupq_n_f32(mean[0]), vdupq_n_f32(mean[1])};
}

/* The means of four values. Their bits start at bit `at` of each lane. */
TLC_NEON_INLINE float32x4_t means4(uint32x4_t bits, int at, means of)
{
    const uint32x4_t lane = {1, 2, 4, 8};
    return vbslq_f32(vtstq_u32(bits, vshlq_u32(lane, vdupq_n_s32(at))), of.upper, of.lower);
}

TLC_NEON_INLINE uint32x4_t bits16(const uint8_t *bits)
{
    uint16_t two;

    memcpy(&two, bits, sizeof two);
    return vdupq_n_u32(two);
}

void tlc_onebit_decode_neon(const uint8_t *bits, size_t n, const float mean[2], float *out)
{
    means of = means_of(mean);
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        uint32x4_t two = bits16(bits + i / 8);

        vst1q_f32(out + i, means4(two, 0, of));
        vst1q_f32(out + i + 4, means4(two, 4, of));
        vst1q_f32(out + i + 8, means4(two, 8, of));
        vst1q_f32(out + i + 12, means4(two, 12, of));
    }
    tlc_onebit_decode_scalar(bits + i / 8, n - i, mean, out + i);
}

TLC_NEON_INLINE void sum4(float *sum, float32x4_t mean)
{
    vst1q_f32(sum, tlc_neon_one_nan(vaddq_f32(vld1q_f32(sum), mean)));
}

void tlc_onebit_add_neon(const uint8_t *bits, size_t n, const float mean[2], float *sum)
{
    means of = means_of(mean);
    size_t i = 0;

    for (; n - i >= 16; i += 16) {
        uint32x4_t two = bits16(bits + i / 8);

        sum4(sum + i, means4(two, 0, of));
        sum4(sum + i + 4, means4(two, 4, of));
        sum4(sum + i + 8, means4(two, 8, of));
        sum4(sum + i + 12, means4(two, 12, of));
    }
    tlc_onebit_add_scalar(bits + i / 8, n - i, mean, sum + i);
}
#endif
