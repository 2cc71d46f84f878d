/* SPDX-License-Identifier: MIT */
#include "kernels.h"

uint32_t tlc_side_sums_avx2(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    return tlc_side_sums_scalar(g, r, n, sums, count);
}

void tlc_onebit_encode_avx2(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits)
{
    tlc_onebit_encode_scalar(g, r, n, mean, bits);
}

void tlc_onebit_decode_avx2(const uint8_t *bits, size_t n, const float mean[2], float *out)
{
    tlc_onebit_decode_scalar(bits, n, mean, out);
}

void tlc_onebit_add_avx2(const uint8_t *bits, size_t n, const float mean[2], float *sum)
{
    tlc_onebit_add_scalar(bits, n, mean, sum);
}
