/* SPDX-License-Identifier: MIT
 *
 * The last few values of each stream go through copies of 16: up to 15 values of five streams, one by one, would be
 * most of the work in a small tensor.
 */
#include "neon.h"
#include "ternary_quartic.h"

#if defined(__aarch64__)

static int8x16_t encode_some(tlc_addends has, const float *g, float *r, size_t count, tlc_neon_scale scale)
{
    float some_g[16] = {0}, some_r[16] = {0};

    if (has & TLC_HAS_G)
        memcpy(some_g, g, count * sizeof *g);
    if (has & TLC_HAS_R)
        memcpy(some_r, r, count * sizeof *r);
    int8x16_t q = tlc_neon_encode16(has, some_g, some_r, 0, scale);
    if (has & TLC_HAS_R)
        memcpy(r, some_r, count * sizeof *r);
    return q;
}

static void encode_rest(tlc_addends has, const float *const *g, float *const *r, size_t at, size_t count,
                        tlc_neon_scale scale, uint8_t *out)
{
    uint8_t bytes[16];
    int8x16_t q[5];

    for (int k = 0; k < 5; k++)
        q[k] = encode_some(has, g ? g[k] + at : NULL, r ? r[k] + at : NULL, count, scale);
    vst1q_u8(bytes, tlc_neon_quartic(q[0], q[1], q[2], q[3], q[4]));
    memcpy(out + at, bytes, count);
}

TLC_NEON_INLINE void encode(tlc_addends has, const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    const int given = has & TLC_HAS_G, rest = has & TLC_HAS_R;
    const float *g0 = given ? g[0] : NULL, *g1 = given ? g[1] : NULL, *g2 = given ? g[2] : NULL;
    const float *g3 = given ? g[3] : NULL, *g4 = given ? g[4] : NULL;
    float *r0 = rest ? r[0] : NULL, *r1 = rest ? r[1] : NULL, *r2 = rest ? r[2] : NULL;
    float *r3 = rest ? r[3] : NULL, *r4 = rest ? r[4] : NULL;
    tlc_neon_scale scale = tlc_neon_scale_of(M);
    size_t i = 0;

    for (; len - i >= 16; i += 16) {
        int8x16_t q0 = tlc_neon_encode16(has, g0, r0, i, scale);
        int8x16_t q1 = tlc_neon_encode16(has, g1, r1, i, scale);
        int8x16_t q2 = tlc_neon_encode16(has, g2, r2, i, scale);
        int8x16_t q3 = tlc_neon_encode16(has, g3, r3, i, scale);
        int8x16_t q4 = tlc_neon_encode16(has, g4, r4, i, scale);

        vst1q_u8(out + i, tlc_neon_quartic(q0, q1, q2, q3, q4));
    }
    if (i < len)
        encode_rest(has, g, r, i, len - i, scale, out);
}

void tlc_ternary_quartic_encode_neon(const float *const *g, float *const *r, size_t len, float M, uint8_t *out)
{
    TLC_WITH_ADDENDS(encode, g, r, len, M, out);
}

/* The symbols of fewer than 16 bytes. The other symbols have no meaning. */
TLC_NEON_INLINE void symbols_of_rest(const uint8_t *in, size_t count, int8x16_t q[5])
{
    uint8_t bytes[16] = {0};

    memcpy(bytes, in, count);
    tlc_neon_symbols(vld1q_u8(bytes), q);
}

static void decode_rest(const uint8_t *in, size_t at, size_t count, tlc_neon_choice choice, float *const out[5])
{
    float some[16];
    int8x16_t q[5];

    symbols_of_rest(in + at, count, q);
    for (int k = 0; k < 5; k++) {
        tlc_neon_decode16(choice, q[k], some);
        memcpy(out[k] + at, some, count * sizeof *some);
    }
}

static void add_rest(const uint8_t *in, size_t at, size_t count, tlc_neon_choice choice, uint32x4_t keep,
                     float *const sum[5])
{
    float some[16] = {0};
    int8x16_t q[5];

    symbols_of_rest(in + at, count, q);
    for (int k = 0; k < 5; k++) {
        memcpy(some, sum[k] + at, count * sizeof *some);
        tlc_neon_add16(choice, keep, q[k], some);
        memcpy(sum[k] + at, some, count * sizeof *some);
    }
}

void tlc_quartic_ternary_decode_neon(const uint8_t *in, size_t len, float M, float *const out[5])
{
    float *out0 = out[0], *out1 = out[1], *out2 = out[2], *out3 = out[3], *out4 = out[4];
    tlc_neon_choice choice = tlc_neon_decoded_choice(M);
    size_t i = 0;

    for (; len - i >= 16; i += 16) {
        int8x16_t q[5];

        tlc_neon_symbols(vld1q_u8(in + i), q);
        tlc_neon_decode16(choice, q[0], out0 + i);
        tlc_neon_decode16(choice, q[1], out1 + i);
        tlc_neon_decode16(choice, q[2], out2 + i);
        tlc_neon_decode16(choice, q[3], out3 + i);
        tlc_neon_decode16(choice, q[4], out4 + i);
    }
    if (i < len)
        decode_rest(in, i, len - i, choice, out);
}

void tlc_quartic_ternary_add_neon(const uint8_t *in, size_t len, float w, float *const sum[5])
{
    float *sum0 = sum[0], *sum1 = sum[1], *sum2 = sum[2], *sum3 = sum[3], *sum4 = sum[4];
    tlc_neon_choice choice = tlc_neon_added_choice(w);
    uint32x4_t keep = vdupq_n_u32(tlc_neon_keep(w));
    size_t i = 0;

    for (; len - i >= 16; i += 16) {
        int8x16_t q[5];

        tlc_neon_symbols(vld1q_u8(in + i), q);
        tlc_neon_add16(choice, keep, q[0], sum0 + i);
        tlc_neon_add16(choice, keep, q[1], sum1 + i);
        tlc_neon_add16(choice, keep, q[2], sum2 + i);
        tlc_neon_add16(choice, keep, q[3], sum3 + i);
        tlc_neon_add16(choice, keep, q[4], sum4 + i);
    }
    if (i < len)
        add_rest(in, i, len - i, choice, keep, sum);
}

void tlc_quartic_ternary_decode_uncached_neon(const uint8_t *in, size_t len, float M, float *const out[5],
                                              tlc_lines *lines, int last)
{
    lines->open = !last;
    tlc_quartic_ternary_decode_neon(in, len, M, out);
}

void tlc_quartic_ternary_add_many_neon(const uint8_t *const *in, const float *w, size_t frames, size_t len,
                                       float *const sum[5])
{
    tlc_add_singly(tlc_quartic_ternary_add_neon, in, w, frames, 0, len, sum);
}
#endif
