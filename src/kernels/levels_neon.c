/* SPDX-License-Identifier: MIT */
#include "inverse.h"
#include "neon.h"

#if defined(__aarch64__)

enum { BYTES = 16 };

TLC_NEON_INLINE uint32x4_t levels4(const float *x, const uint32_t *words, float32x4_t max, float32x4_t K)
{
    float32x4_t y = vmulq_f32(vdivq_f32(vld1q_f32(x), max), K);
    int32x4_t level;

    if (words) {
        float32x4_t floor = vrndmq_f32(y), u = vcvtq_n_f32_u32(vshrq_n_u32(vld1q_u32(words), 8), 24);
        uint32x4_t up = vcltq_f32(u, vsubq_f32(y, floor));
        level = vsubq_s32(vcvtq_s32_f32(floor), vreinterpretq_s32_u32(up)); /* true is -1 */
    } else
        level = vcvtnq_s32_f32(y);
    return vreinterpretq_u32_s32(level);
}

TLC_NEON_INLINE void encode(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    float32x4_t all_max = vdupq_n_f32(max), all_K = vdupq_n_f32(K);
    size_t i = 0;

    for (; n - i >= BYTES; i += BYTES) {
        uint32x4_t a = levels4(x + i, words ? words + i : NULL, all_max, all_K);
        uint32x4_t b = levels4(x + i + 4, words ? words + i + 4 : NULL, all_max, all_K);
        uint32x4_t c = levels4(x + i + 8, words ? words + i + 8 : NULL, all_max, all_K);
        uint32x4_t d = levels4(x + i + 12, words ? words + i + 12 : NULL, all_max, all_K);
        vst1q_s8(q + i, vreinterpretq_s8_u8(tlc_neon_pack16(a, b, c, d)));
    }
    tlc_levels_encode_scalar(x + i, words ? words + i : NULL, n - i, max, K, q + i);
}

void tlc_levels_encode_neon(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    if (words)
        encode(x, words, n, max, K, q);
    else
        encode(x, NULL, n, max, K, q);
}

TLC_NEON_INLINE void decode4(int16x4_t q, float32x4_t max, tlc_inverse inverse, float *out)
{
    float32x4_t level = vcvtq_f32_s32(vmovl_s16(q));
    float32x4_t high = vmulq_f32(level, vdupq_n_f32(inverse.high)), low = vmulq_f32(level, vdupq_n_f32(inverse.low));

    vst1q_f32(out, vmulq_f32(max, vaddq_f32(high, low)));
}

void tlc_levels_decode_neon(const int8_t *q, size_t n, float max, float K, float *out)
{
    tlc_inverse inverse = tlc_inverse_of(K);
    float32x4_t all_max = vdupq_n_f32(max);
    size_t i = 0;

    for (; n - i >= BYTES; i += BYTES) {
        int8x16_t bytes = vld1q_s8(q + i);
        int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
        decode4(vget_low_s16(low), all_max, inverse, out + i);
        decode4(vget_high_s16(low), all_max, inverse, out + i + 4);
        decode4(vget_low_s16(high), all_max, inverse, out + i + 8);
        decode4(vget_high_s16(high), all_max, inverse, out + i + 12);
    }
    tlc_levels_decode_scalar(q + i, n - i, max, K, out + i);
}

void tlc_nibbles_pack_neon(const int8_t *q, size_t n, uint8_t *out)
{
    size_t i = 0;

    for (; n - i >= 2 * BYTES; i += 2 * BYTES) {
        uint8x16x2_t pair = vld2q_u8((const uint8_t *)(q + i));
        vst1q_u8(out + i / 2, vsliq_n_u8(pair.val[0], pair.val[1], 4));
    }
    tlc_nibbles_pack_scalar(q + i, n - i, out + i / 2);
}

void tlc_nibbles_unpack_neon(const uint8_t *in, size_t n, int8_t *q)
{
    size_t i = 0;

    for (; n - i >= 2 * BYTES; i += 2 * BYTES) {
        int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(in + i / 2));
        int8x16x2_t pair = {{vshrq_n_s8(vshlq_n_s8(bytes, 4), 4), vshrq_n_s8(bytes, 4)}};
        vst2q_s8(q + i, pair);
    }
    tlc_nibbles_unpack_scalar(in + i / 2, n - i, q + i);
}
#endif
