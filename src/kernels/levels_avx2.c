/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_levels_encode_avx2(const float *x, const uint32_t *words, size_t n, float max, float K, int8_t *q)
{
    tlc_levels_encode_scalar(x, words, n, max, K, q);
}

void tlc_levels_decode_avx2(const int8_t *q, size_t n, float max, float K, float *out)
{
    tlc_levels_decode_scalar(q, n, max, K, out);
}

void tlc_nibbles_pack_avx2(const int8_t *q, size_t n, uint8_t *out)
{
    tlc_nibbles_pack_scalar(q, n, out);
}

void tlc_nibbles_unpack_avx2(const uint8_t *in, size_t n, int8_t *q)
{
    tlc_nibbles_unpack_scalar(in, n, q);
}
