/* SPDX-License-Identifier: MIT */
#include "../common/rng.h"
#include "kernels.h"

/* Rounds half to even, for |y| < 2^22: the sum has no bits below 1. */
static float nearest(float y)
{
    return y + 0x1.8p23f - 0x1.8p23f;
}

void tlc_levels_encode_scalar(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    for (size_t i = 0; i < n; i++) {
        float y = x[i] / max * K;
        float level = nearest(y);

        if (words) {
            level -= level > y ? 1.0f : 0.0f; /* now floor(y) */
            level += tlc_uniform(words[i]) < y - level ? 1.0f : 0.0f;
        }
        q[i] = (int8_t)level;
    }
}

void tlc_levels_decode_scalar(const int8_t *q, size_t n, float max, float K, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = max * ((float)q[i] / K);
}

void tlc_nibbles_pack_scalar(const int8_t *q, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i += 2)
        out[i / 2] = (uint8_t)((q[i] & 15) | (i + 1 < n ? (q[i + 1] & 15) << 4 : 0));
}

void tlc_nibbles_unpack_scalar(const uint8_t *in, size_t n, int8_t *q)
{
    for (size_t i = 0; i < n; i++) {
        int nibble = in[i / 2] >> i % 2 * 4 & 15;
        q[i] = (int8_t)((nibble ^ 8) - 8);
    }
}
