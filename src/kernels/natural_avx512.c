/* SPDX-License-Identifier: MIT */
#include "kernels.h"

uint64_t tlc_natural_encode_avx512(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    return tlc_natural_encode_scalar(x, words, n, shift, out);
}

void tlc_natural_decode_avx512(const uint8_t *in, size_t n, int shift, float *out)
{
    tlc_natural_decode_scalar(in, n, shift, out);
}

uint64_t tlc_natural9_encode_avx512(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out, uint8_t *signs)
{
    return tlc_natural9_encode_scalar(x, words, n, shift, out, signs);
}

void tlc_natural9_decode_avx512(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out)
{
    tlc_natural9_decode_scalar(in, signs, n, shift, out);
}
