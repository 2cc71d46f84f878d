/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

enum { WORD = 64 };

TLC_NEON_INLINE uint8x16_t nonzero16(const int8_t *q)
{
    int8x16_t symbols = vld1q_s8(q);
    return vtstq_s8(symbols, symbols);
}

TLC_NEON_INLINE uint64_t nonzero64(const int8_t *q)
{
    return tlc_neon_word(nonzero16(q), nonzero16(q + 16), nonzero16(q + 32), nonzero16(q + 48));
}

TLC_NEON_INLINE uint64_t minus64(const int8_t *q)
{
    return tlc_neon_word(vcltzq_s8(vld1q_s8(q)), vcltzq_s8(vld1q_s8(q + 16)), vcltzq_s8(vld1q_s8(q + 32)),
                         vcltzq_s8(vld1q_s8(q + 48)));
}

TLC_NEON_INLINE uint32x4_t float_bits(const float *x)
{
    return vreinterpretq_u32_f32(vld1q_f32(x));
}

typedef struct threshold {
    uint32x4_t flip, keep;
    int32x4_t least;
} threshold;

TLC_NEON_INLINE uint32x4_t reached4(const float *x, threshold t)
{
    return vcgeq_s32(vreinterpretq_s32_u32(vandq_u32(veorq_u32(float_bits(x), t.flip), t.keep)), t.least);
}

TLC_NEON_INLINE uint8x16_t reached16(const float *x, threshold t)
{
    return tlc_neon_pack16(reached4(x, t), reached4(x + 4, t), reached4(x + 8, t), reached4(x + 12, t));
}

TLC_NEON_INLINE uint64_t reached64(const float *x, threshold t)
{
    return tlc_neon_word(reached16(x, t), reached16(x + 16, t), reached16(x + 32, t), reached16(x + 48, t));
}

TLC_NEON_INLINE threshold threshold_of(uint32_t flip, uint32_t keep, int32_t least)
{
    return (threshold){vdupq_n_u32(flip), vdupq_n_u32(keep), vdupq_n_s32(least)};
}

typedef uint32x4_t limits;

TLC_NEON_INLINE limits limits_of(uint32_t limit)
{
    return vdupq_n_u32(limit);
}

/* All ones where a value is drawn: its word is below the limit and it is not 0. */
TLC_NEON_INLINE uint32x4_t drawn4(const float *x, const uint32_t *words, limits limit)
{
    return vbicq_u32(vcltq_u32(vshrq_n_u32(vld1q_u32(words), 8), limit), vceqzq_f32(vld1q_f32(x)));
}

TLC_NEON_INLINE uint8x16_t drawn16(const float *x, const uint32_t *words, limits limit)
{
    return tlc_neon_pack16(drawn4(x, words, limit), drawn4(x + 4, words + 4, limit), drawn4(x + 8, words + 8, limit),
                           drawn4(x + 12, words + 12, limit));
}

TLC_NEON_INLINE uint64_t drawn64(const float *x, const uint32_t *words, limits limit)
{
    return tlc_neon_word(drawn16(x, words, limit), drawn16(x + 16, words + 16, limit),
                         drawn16(x + 32, words + 32, limit), drawn16(x + 48, words + 48, limit));
}

uint64_t tlc_count_ones_neon(const uint8_t *bits, size_t len)
{
    uint64_t count = 0;
    size_t i = 0;

    for (; len - i >= 16; i += 16)
        count += vaddlvq_u8(vcntq_u8(vld1q_u8(bits + i)));
    return count + tlc_count_ones_scalar(bits + i, len - i);
}

/* For each mask of 4 lanes: the indices of the bytes that they get, or 255 for none. */
#define COUNT(m) (((m) & 1) + ((m) >> 1 & 1) + ((m) >> 2 & 1))
#define BYTE(m, i, k) ((m) >> (i) & 1 ? 4 * COUNT((m) & ((1 << (i)) - 1)) + (k) : 255)
#define LANE(m, i) BYTE(m, i, 0), BYTE(m, i, 1), BYTE(m, i, 2), BYTE(m, i, 3)
#define SOURCES(m) {LANE(m, 0), LANE(m, 1), LANE(m, 2), LANE(m, 3)}
#define SOURCES4(m) SOURCES(m), SOURCES((m) + 1), SOURCES((m) + 2), SOURCES((m) + 3)
static const uint8_t sources[16][16] = {SOURCES4(0), SOURCES4(4), SOURCES4(8), SOURCES4(12)};

TLC_NEON_INLINE void add4(float32x4_t value, uint8x16_t source, float weight, float *sum)
{
    float32x4_t old = vld1q_f32(sum), x = tlc_neon_weighted(old, value, vdupq_n_f32(weight));
    uint32x4_t none = vceqq_u32(vreinterpretq_u32_u8(source), vdupq_n_u32(UINT32_MAX));

    vst1q_f32(sum, vbslq_f32(none, old, x));
}

/* Inlined once with add, which uses weight, and once without. */
TLC_NEON_INLINE size_t expand_word(uint64_t mask, const uint8_t *values, int add, float weight, float *out)
{
    size_t at = 0;

    for (unsigned lane = 0; lane < WORD; lane += 4) {
        unsigned bits = mask >> lane & 15;
        uint8x16_t source = vld1q_u8(sources[bits]);
        float32x4_t value = vreinterpretq_f32_u8(vqtbl1q_u8(vld1q_u8(values + 4 * at), source));

        if (add)
            add4(value, source, weight, out + lane);
        else
            vst1q_f32(out + lane, value);
        at += (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3);
    }
    return at;
}

#define TARGET
#define INLINE TLC_NEON_INLINE
#define NAME(kernel) tlc_##kernel##_neon
#include "masks_template.h"
#endif
