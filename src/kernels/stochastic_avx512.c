/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_stochastic_encode_avx512(const float *x, const uint32_t *words, size_t n, float max, int8_t *q)
{
    tlc_stochastic_encode_scalar(x, words, n, max, q);
}
