/* SPDX-License-Identifier: MIT
 *
 * 16 values at a time. Adding a random unit (or half a unit) below the exponent carries into it when it must, and
 * leaves sign and biased exponent in the upper nine bits.
 */
#include "neon.h"

#if defined(__aarch64__)

enum { GROUP = 16 };

/* 16 values in order: their biased exponents (a subnormal counts as a normal number), their signs 0 or 1, and bytes
 * -1 where they are not 0. */
typedef struct rounded {
    uint8x16_t exponents, signs, others;
} rounded;

/* Sign and exponent, 0..511, of 4 values. (word >> 9) < m if and only if m + (2^23 - 1 - (word >> 9)) >= 2^23. */
TLC_NEON_INLINE uint16x8_t round4(const float *x, const uint32_t *words, uint32x4_t *others)
{
    uint32x4_t bits = vreinterpretq_u32_f32(vld1q_f32(x)), added = vdupq_n_u32(0x400000);

    *others = vtstq_u32(bits, vdupq_n_u32(TLC_F32_ABS));
    if (words)
        added = vshrq_n_u32(vmvnq_u32(vld1q_u32(words)), 9);
    return vreinterpretq_u16_u32(vshrq_n_u32(vaddq_u32(bits, added), 23));
}

TLC_NEON_INLINE rounded round16(const float *x, const uint32_t *words)
{
    uint32x4_t o0, o1, o2, o3;
    uint16x8_t a = round4(x, words, &o0), b = round4(x + 4, words ? words + 4 : NULL, &o1);
    uint16x8_t c = round4(x + 8, words ? words + 8 : NULL, &o2), d = round4(x + 12, words ? words + 12 : NULL, &o3);
    uint8x16_t low = vreinterpretq_u8_u16(vuzp1q_u16(a, b)), high = vreinterpretq_u8_u16(vuzp1q_u16(c, d));

    return (rounded){vuzp1q_u8(low, high), vuzp2q_u8(low, high), tlc_neon_pack16(o0, o1, o2, o3)};
}

TLC_NEON_INLINE uint8x16_t all(int byte)
{
    return vdupq_n_u8((uint8_t)byte);
}

TLC_NEON_INLINE uint32_t count(uint8x16_t bytes)
{
    return vaddvq_u8(vshrq_n_u8(bytes, 7));
}

/* Codes 0..60 from biased exponents. Subnormals and what they round to are below code 0 for every shift. */
TLC_NEON_INLINE uint32_t encode16(const float *x, const uint32_t *words, int shift, uint8_t *out)
{
    const uint8x16_t least = all(TLC_NATURAL_LEAST + 127 + shift), codes = all(TLC_NATURAL_MOST - TLC_NATURAL_LEAST);
    rounded r = round16(x, words);
    uint8x16_t code = vsliq_n_u8(vminq_u8(vqsubq_u8(r.exponents, least), codes), r.signs, 7);

    vst1q_u8(out, vbslq_u8(r.others, code, all(TLC_NATURAL_ZERO)));
    return count(vandq_u8(r.others, vcgtq_u8(vsubq_u8(r.exponents, least), codes))); /* lower ones wrap */
}

TLC_NEON_INLINE uint64_t encode(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    uint64_t clipped = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        clipped += encode16(x + i, words ? words + i : NULL, shift, out + i);
    return clipped + tlc_natural_encode_scalar(x + i, words ? words + i : NULL, n - i, shift, out + i);
}

uint64_t tlc_natural_encode_neon(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    return words ? encode(x, words, n, shift, out) : encode(x, NULL, n, shift, out);
}

/* 0 where zeros is set, else the exponent in the low bits of e and the sign in the highest bit of s. */
TLC_NEON_INLINE float32x4_t powers4(uint32x4_t e, uint32x4_t s, uint32x4_t zeros)
{
    uint32x4_t sign = vandq_u32(s, vdupq_n_u32(0x80000000));
    return vreinterpretq_f32_u32(vbicq_u32(vorrq_u32(vshlq_n_u32(e, 23), sign), zeros));
}

/* The values of 4 codes. *zeros: those that are 0. */
TLC_NEON_INLINE float32x4_t values4(uint32x4_t code, uint32x4_t least, uint32x4_t *zeros)
{
    uint32x4_t e = vaddq_u32(vandq_u32(code, vdupq_n_u32(0x7f)), least);

    *zeros = vceqq_u32(code, vdupq_n_u32(TLC_NATURAL_ZERO));
    return powers4(e, vshlq_n_u32(code, 24), *zeros);
}

TLC_NEON_INLINE void decode4(uint32x4_t code, uint32x4_t least, float *out)
{
    uint32x4_t zeros;
    vst1q_f32(out, values4(code, least, &zeros));
}

TLC_NEON_INLINE void add4(uint32x4_t code, uint32x4_t least, float32x4_t weight, float *sum)
{
    uint32x4_t zeros;
    float32x4_t value = values4(code, least, &zeros), old = vld1q_f32(sum);

    vst1q_f32(sum, vbslq_f32(zeros, old, tlc_neon_weighted(old, value, weight)));
}

void tlc_natural_decode_neon(const uint8_t *in, size_t n, int shift, float *out)
{
    const uint32x4_t least = vdupq_n_u32((uint32_t)(TLC_NATURAL_LEAST + 127 + shift));
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        uint16x8_t codes = vmovl_u8(vld1_u8(in + i));
        decode4(vmovl_u16(vget_low_u16(codes)), least, out + i);
        decode4(vmovl_high_u16(codes), least, out + i + 4);
    }
    tlc_natural_decode_scalar(in + i, n - i, shift, out + i);
}

void tlc_natural_add_neon(const uint8_t *in, size_t n, int shift, float weight, float *sum)
{
    const uint32x4_t least = vdupq_n_u32((uint32_t)(TLC_NATURAL_LEAST + 127 + shift));
    const float32x4_t w = vdupq_n_f32(weight);
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        uint16x8_t codes = vmovl_u8(vld1_u8(in + i));
        add4(vmovl_u16(vget_low_u16(codes)), least, w, sum + i);
        add4(vmovl_high_u16(codes), least, w, sum + i + 4);
    }
    tlc_natural_add_scalar(in + i, n - i, shift, weight, sum + i);
}

/* Biased exponents 1..254 - shift. A subnormal becomes 1 whatever it rounds to, but without a shift its bits do not
 * tell whether that is clipping. This is rare, and the scalar kernel takes over. */
TLC_NEON_INLINE uint64_t encode9(const float *x, const uint32_t *words, int shift, uint8_t *out, uint8_t *signs)
{
    static const int8_t places[GROUP] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7};
    rounded r = round16(x, words);

    if (shift == 0 && vmaxvq_u8(vandq_u8(r.others, vcleq_u8(r.exponents, all(1)))))
        return tlc_natural9_encode_scalar(x, words, GROUP, shift, out, signs);
    uint8x16_t byte = vminq_u8(vqsubq_u8(r.exponents, all(shift)), all(254 - shift));
    uint8x16_t above = vsubq_u8(r.exponents, all(shift + 1)); /* lower ones wrap */
    uint8x16_t negative = vshlq_u8(vandq_u8(r.signs, r.others), vld1q_s8(places));

    vst1q_u8(out, vandq_u8(r.others, vmaxq_u8(byte, all(1))));
    signs[0] = vaddv_u8(vget_low_u8(negative));
    signs[1] = vaddv_u8(vget_high_u8(negative));
    return count(vandq_u8(r.others, vcgtq_u8(above, all(253 - shift))));
}

TLC_NEON_INLINE uint64_t encode9_all(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                     uint8_t *signs)
{
    uint64_t clipped = 0;
    size_t i = 0;

    for (; n - i >= GROUP; i += GROUP)
        clipped += encode9(x + i, words ? words + i : NULL, shift, out + i, signs + i / 8);
    return clipped + tlc_natural9_encode_scalar(x + i, words ? words + i : NULL, n - i, shift, out + i, signs + i / 8);
}

uint64_t tlc_natural9_encode_neon(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                  uint8_t *signs)
{
    return words ? encode9_all(x, words, n, shift, out, signs) : encode9_all(x, NULL, n, shift, out, signs);
}

void tlc_natural9_decode_neon(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out)
{
    static const int32_t places[8] = {31, 30, 29, 28, 27, 26, 25, 24};
    const int32x4_t low = vld1q_s32(places), high = vld1q_s32(places + 4);
    const uint32x4_t by = vdupq_n_u32((uint32_t)shift);
    size_t i = 0;

    for (; n - i >= 8; i += 8) {
        uint16x8_t bytes = vmovl_u8(vld1_u8(in + i));
        uint32x4_t a = vmovl_u16(vget_low_u16(bytes)), b = vmovl_high_u16(bytes), sign = vdupq_n_u32(signs[i / 8]);
        vst1q_f32(out + i, powers4(vaddq_u32(a, by), vshlq_u32(sign, low), vceqzq_u32(a)));
        vst1q_f32(out + i + 4, powers4(vaddq_u32(b, by), vshlq_u32(sign, high), vceqzq_u32(b)));
    }
    tlc_natural9_decode_scalar(in + i, signs + i / 8, n - i, shift, out + i);
}
#endif
