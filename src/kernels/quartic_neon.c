/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

void tlc_quartic_encode_neon(const int8_t *const q[5], size_t len, uint8_t *out)
{
    const int8_t *q0 = q[0], *q1 = q[1], *q2 = q[2], *q3 = q[3], *q4 = q[4];
    size_t i = 0;

    for (; len - i >= 16; i += 16)
        vst1q_u8(out + i, tlc_neon_quartic(vld1q_s8(q0 + i), vld1q_s8(q1 + i), vld1q_s8(q2 + i), vld1q_s8(q3 + i),
                                           vld1q_s8(q4 + i)));
    const int8_t *const rest[5] = {q0 + i, q1 + i, q2 + i, q3 + i, q4 + i};
    tlc_quartic_encode_scalar(rest, len - i, out + i);
}

void tlc_quartic_decode_neon(const uint8_t *in, size_t len, int8_t *const q[5])
{
    int8_t *q0 = q[0], *q1 = q[1], *q2 = q[2], *q3 = q[3], *q4 = q[4];
    size_t i = 0;

    for (; len - i >= 16; i += 16) {
        int8x16_t symbols[5];

        tlc_neon_symbols(vld1q_u8(in + i), symbols);
        vst1q_s8(q0 + i, symbols[0]);
        vst1q_s8(q1 + i, symbols[1]);
        vst1q_s8(q2 + i, symbols[2]);
        vst1q_s8(q3 + i, symbols[3]);
        vst1q_s8(q4 + i, symbols[4]);
    }
    int8_t *const rest[5] = {q0 + i, q1 + i, q2 + i, q3 + i, q4 + i};
    tlc_quartic_decode_scalar(in + i, len - i, rest);
}

uint8_t tlc_bytes_max_neon(const uint8_t *in, size_t len)
{
    uint8x16_t m0 = vdupq_n_u8(0), m1 = m0;
    size_t i = 0;

    for (; len - i >= 32; i += 32) {
        m0 = vmaxq_u8(m0, vld1q_u8(in + i));
        m1 = vmaxq_u8(m1, vld1q_u8(in + i + 16));
    }
    uint8_t max = vmaxvq_u8(vmaxq_u8(m0, m1)), rest = tlc_bytes_max_scalar(in + i, len - i);
    return max > rest ? max : rest;
}

TLC_NEON_INLINE uint8x16_t not_allowed(uint8x16_t x, const tlc_bytes_rule *rule)
{
    uint8x16_t from = vsubq_u8(vandq_u8(x, vdupq_n_u8(rule->keep)), vdupq_n_u8(rule->least));
    return vbicq_u8(vcgtq_u8(from, vdupq_n_u8(rule->above)), vceqq_u8(x, vdupq_n_u8(rule->other)));
}

int tlc_bytes_allowed_neon(const uint8_t *in, size_t len, const tlc_bytes_rule *rule)
{
    uint8x16_t bad = vdupq_n_u8(0);
    size_t i = 0;

    for (; len - i >= 16; i += 16)
        bad = vorrq_u8(bad, not_allowed(vld1q_u8(in + i), rule));
    return !vmaxvq_u8(bad) && tlc_bytes_allowed_scalar(in + i, len - i, rule);
}
#endif
