/* SPDX-License-Identifier: MIT
 *
 * 64 weights become a word of each mask. The weights after the last whole word are compared one by one.
 */
#include "delta.h"
#include "neon.h"

#if defined(__aarch64__)

enum { WORD = 64 };

/* All ones in each lane whose weight differs, decreases, or differs by more than 1, as 16 bytes. */
typedef struct found {
    uint8x16_t changed, negative, large;
} found;

TLC_NEON_INLINE int16x8_t ordered16(int16x8_t x)
{
    return veorq_s16(x, vreinterpretq_s16_u16(vshrq_n_u16(vcltzq_s16(x), 1)));
}

TLC_NEON_INLINE int32x4_t ordered32(int32x4_t x)
{
    return veorq_s32(x, vreinterpretq_s32_u32(vshrq_n_u32(vcltzq_s32(x), 1)));
}

TLC_NEON_INLINE int8x16_t ordered8(int8x16_t x)
{
    return veorq_s8(x, vreinterpretq_s8_u8(vshrq_n_u8(vcltzq_s8(x), 1)));
}

TLC_NEON_INLINE int16x8_t difference16(const uint8_t *base, const uint8_t *next)
{
    const int16x8_t a = vreinterpretq_s16_u8(vld1q_u8(base)), b = vreinterpretq_s16_u8(vld1q_u8(next));

    return vsubq_s16(ordered16(b), ordered16(a));
}

TLC_NEON_INLINE int32x4_t difference32(const uint8_t *base, const uint8_t *next, tlc_weight_unit unit)
{
    const int32x4_t a = vreinterpretq_s32_u8(vld1q_u8(base)), b = vreinterpretq_s32_u8(vld1q_u8(next));

    return unit == TLC_UNIT_U32 ? vsubq_s32(b, a) : vsubq_s32(ordered32(b), ordered32(a));
}

/* 16 units of 4 bits from 8 bytes, each in the upper half of a byte. Floats are ordered. */
TLC_NEON_INLINE int8x16_t load_nibbles(const uint8_t *p, tlc_weight_unit unit)
{
    const uint8x8_t x = vld1_u8(p), first = vshl_n_u8(x, 4), second = vand_u8(x, vdup_n_u8(0xf0));

    const int8x16_t all = vreinterpretq_s8_u8(vcombine_u8(vzip1_u8(first, second), vzip2_u8(first, second)));
    return unit == TLC_UNIT_U4 ? all : veorq_s8(all, vreinterpretq_s8_u8(vandq_u8(vcltzq_s8(all), vdupq_n_u8(0x70))));
}

/* Of units of 4 bits 16 times as large. */
TLC_NEON_INLINE int8x16_t difference8(const uint8_t *base, const uint8_t *next, tlc_weight_unit unit)
{
    if (tlc_unit_width(unit) == 4)
        return vsubq_s8(load_nibbles(next, unit), load_nibbles(base, unit));
    const int8x16_t a = vreinterpretq_s8_u8(vld1q_u8(base)), b = vreinterpretq_s8_u8(vld1q_u8(next));
    return unit == TLC_UNIT_U8 ? vsubq_s8(b, a) : vsubq_s8(ordered8(b), ordered8(a));
}

/* |d| of -2^7, -2^15 and -2^31 is that number again: as unsigned it is large. */
TLC_NEON_INLINE uint8x16_t large16(int16x8_t d, int16x8_t e)
{
    const uint16x8_t one = vdupq_n_u16(1);

    return vuzp1q_u8(vreinterpretq_u8_u16(vcgtq_u16(vreinterpretq_u16_s16(vabsq_s16(d)), one)),
                     vreinterpretq_u8_u16(vcgtq_u16(vreinterpretq_u16_s16(vabsq_s16(e)), one)));
}

TLC_NEON_INLINE found compare16(const uint8_t *base, const uint8_t *next)
{
    const int16x8_t d = difference16(base, next), e = difference16(base + 16, next + 16);

    return (found){
        vuzp1q_u8(vreinterpretq_u8_u16(vtstq_s16(d, d)), vreinterpretq_u8_u16(vtstq_s16(e, e))),
        vuzp1q_u8(vreinterpretq_u8_u16(vcltzq_s16(d)), vreinterpretq_u8_u16(vcltzq_s16(e))),
        large16(d, e),
    };
}

TLC_NEON_INLINE uint32x4_t large32(int32x4_t d)
{
    return vcgtq_u32(vreinterpretq_u32_s32(vabsq_s32(d)), vdupq_n_u32(1));
}

TLC_NEON_INLINE found compare32(const uint8_t *base, const uint8_t *next, tlc_weight_unit unit)
{
    const int32x4_t d = difference32(base, next, unit), e = difference32(base + 16, next + 16, unit);
    const int32x4_t f = difference32(base + 32, next + 32, unit), g = difference32(base + 48, next + 48, unit);

    return (found){
        tlc_neon_pack16(vtstq_s32(d, d), vtstq_s32(e, e), vtstq_s32(f, f), vtstq_s32(g, g)),
        tlc_neon_pack16(vcltzq_s32(d), vcltzq_s32(e), vcltzq_s32(f), vcltzq_s32(g)),
        tlc_neon_pack16(large32(d), large32(e), large32(f), large32(g)),
    };
}

TLC_NEON_INLINE found compare8(const uint8_t *base, const uint8_t *next, tlc_weight_unit unit)
{
    const int8x16_t d = difference8(base, next, unit);
    const uint8x16_t one = vdupq_n_u8(tlc_unit_width(unit) == 4 ? 16 : 1);

    return (found){vtstq_s8(d, d), vcltzq_s8(d), vcgtq_u8(vreinterpretq_u8_s8(vabsq_s8(d)), one)};
}

TLC_NEON_INLINE uint64_t delta(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                               uint64_t *negative, uint64_t *large, tlc_weight_unit unit)
{
    const unsigned width = tlc_unit_width(unit);
    uint64_t count = 0;
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        found f[4];

        for (unsigned k = 0; k < 4; k++) {
            const size_t at = tlc_unit_bytes(unit, i + 16 * k);
            f[k] = width == 32   ? compare32(base + at, next + at, unit)
                   : width == 16 ? compare16(base + at, next + at)
                                 : compare8(base + at, next + at, unit);
        }
        changed[i / WORD] = tlc_neon_word(f[0].changed, f[1].changed, f[2].changed, f[3].changed);
        negative[i / WORD] = tlc_neon_word(f[0].negative, f[1].negative, f[2].negative, f[3].negative);
        large[i / WORD] = tlc_neon_word(f[0].large, f[1].large, f[2].large, f[3].large);
        count += (uint64_t)__builtin_popcountll(changed[i / WORD]);
    }
    return i < n ? count + tlc_delta_word(base, next, i, n - i, changed, negative, large, unit) : count;
}

TLC_DELTA_COMPARES(neon, , delta)

/* 8 weights; lanes of all ones are -1. */
TLC_NEON_INLINE void move16(uint8_t *at, uint64_t up, uint64_t down)
{
    static const uint16_t bits[] = {1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t own = vld1q_u16(bits);
    const int16x8_t plus = vreinterpretq_s16_u16(vtstq_u16(vdupq_n_u16((uint16_t)up), own));
    const int16x8_t minus = vreinterpretq_s16_u16(vtstq_u16(vdupq_n_u16((uint16_t)down), own));
    const int16x8_t x = ordered16(vreinterpretq_s16_u8(vld1q_u8(at)));

    vst1q_u8(at, vreinterpretq_u8_s16(ordered16(vaddq_s16(vsubq_s16(x, plus), minus))));
}

/* 4 weights. */
TLC_NEON_INLINE void move32(uint8_t *at, uint64_t up, uint64_t down)
{
    static const uint32_t bits[] = {1, 2, 4, 8};
    const uint32x4_t own = vld1q_u32(bits);
    const int32x4_t plus = vreinterpretq_s32_u32(vtstq_u32(vdupq_n_u32((uint32_t)up), own));
    const int32x4_t minus = vreinterpretq_s32_u32(vtstq_u32(vdupq_n_u32((uint32_t)down), own));
    const int32x4_t x = ordered32(vreinterpretq_s32_u8(vld1q_u8(at)));

    vst1q_u8(at, vreinterpretq_u8_s32(ordered32(vaddq_s32(vsubq_s32(x, plus), minus))));
}

TLC_NEON_INLINE void move(uint8_t *weights, size_t n, const uint64_t *changed, const uint64_t *negative,
                          tlc_weight_unit unit)
{
    const unsigned width = tlc_unit_width(unit);
    size_t i = 0;

    for (; n - i >= WORD; i += WORD) {
        const uint64_t up = changed[i / WORD] & ~negative[i / WORD], down = changed[i / WORD] & negative[i / WORD];
        uint8_t *at = weights + i * (width / 8);

        if (!(up | down))
            continue;
        for (unsigned k = 0; k < WORD; k += 128 / width, at += 16)
            if (width == 16)
                move16(at, up >> k, down >> k);
            else
                move32(at, up >> k, down >> k);
    }
    if (i < n)
        tlc_delta_move_word(weights, i, changed[i / WORD], negative[i / WORD], unit);
}

void tlc_delta_move16_neon(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, TLC_UNIT_F16);
}

void tlc_delta_move32_neon(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move(weights, n, changed, negative, TLC_UNIT_F32);
}
#endif
