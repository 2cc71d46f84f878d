/* SPDX-License-Identifier: MIT
 *
 * One 16-bit float at a time, on the bits, so that the result of a NaN or a subnormal depends on no float unit.
 */
#ifndef TLC_CONVERT_H
#define TLC_CONVERT_H

#include "kernels.h"

static inline uint16_t tlc_load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void tlc_store16(uint8_t *p, uint16_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline float tlc_widen_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, magnitude = h & 0x7fffu;

    if (magnitude >= 0x7c00u) /* infinity, or a NaN: payload moved up, quiet bit set */
        return tlc_bits_float(sign | TLC_F32_INF | (magnitude & 0x3ffu) << 13 | (magnitude > 0x7c00u ? 0x400000u : 0u));
    if (magnitude < 0x400u) { /* zero or subnormal: magnitude * 2^-24, exact in binary32 */
        float x = (float)magnitude * 0x1p-24f;
        return tlc_bits_float(sign | tlc_float_bits(x));
    }
    return tlc_bits_float(sign | ((magnitude << 13) + ((127u - 15u) << 23)));
}

static inline uint16_t tlc_narrow_f16(float x)
{
    uint32_t bits = tlc_float_bits(x), sign = bits >> 16 & 0x8000u, magnitude = bits & TLC_F32_ABS;

    if (magnitude > TLC_F32_INF)
        return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    if (magnitude >= 0x47800000u) /* 65536 and above; 65520 to 65536 carries into infinity below */
        return (uint16_t)(sign | 0x7c00u);
    if (magnitude >= 0x38800000u) { /* 2^-14: normal in f16 */
        uint32_t half = magnitude - ((127u - 15u) << 23);
        return (uint16_t)(sign | (half + 0xfffu + (half >> 13 & 1u)) >> 13);
    }
    if (magnitude < 0x33000000u) /* below 2^-25: zero; 2^-25 itself is a tie and goes to zero below */
        return (uint16_t)sign;
    /* subnormal in f16: the 24-bit mantissa is shifted to units of 2^-24 */
    uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u, shift = 126u - (magnitude >> 23);
    uint32_t rest = mantissa & ((1u << shift) - 1u), tie = 1u << (shift - 1u), half = mantissa >> shift;
    half += rest > tie || (rest == tie && (half & 1u));
    return (uint16_t)(sign | half);
}

static inline float tlc_widen_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    return tlc_bits_float(bits | ((bits & TLC_F32_ABS) > TLC_F32_INF ? 0x400000u : 0u));
}

static inline uint16_t tlc_narrow_bf16(float x)
{
    uint32_t bits = tlc_float_bits(x);

    if ((bits & TLC_F32_ABS) > TLC_F32_INF)
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
#endif
