/* SPDX-License-Identifier: MIT */
#include "neon.h"

#if defined(__aarch64__)

TLC_NEON_INLINE void encode(tlc_addends has, const float *g, float *r, size_t n, float M, int8_t *q)
{
    tlc_neon_scale scale = tlc_neon_scale_of(M);
    size_t i = 0;

    for (; n - i >= 16; i += 16)
        vst1q_s8(q + i, tlc_neon_encode16(has, g, r, i, scale));
    tlc_ternary_encode_scalar(has & TLC_HAS_G ? g + i : NULL, has & TLC_HAS_R ? r + i : NULL, n - i, M, q + i);
}

void tlc_ternary_encode_neon(const float *g, float *r, size_t n, float M, int8_t *q)
{
    TLC_WITH_ADDENDS(encode, g, r, n, M, q);
}

void tlc_ternary_decode_neon(const int8_t *q, size_t n, float M, float *out)
{
    tlc_neon_choice choice = tlc_neon_decoded_choice(M);
    size_t i = 0;

    for (; n - i >= 16; i += 16)
        tlc_neon_decode16(choice, vld1q_s8(q + i), out + i);
    tlc_ternary_decode_scalar(q + i, n - i, M, out + i);
}

void tlc_ternary_add_neon(const int8_t *q, size_t n, float w, float *sum)
{
    tlc_neon_choice choice = tlc_neon_added_choice(w);
    uint32x4_t keep = vdupq_n_u32(tlc_neon_keep(w));
    size_t i = 0;

    for (; n - i >= 16; i += 16)
        tlc_neon_add16(choice, keep, vld1q_s8(q + i), sum + i);
    tlc_ternary_add_scalar(q + i, n - i, w, sum + i);
}
#endif
