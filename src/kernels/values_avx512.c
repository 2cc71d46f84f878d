/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_values_add_avx512(const float *v, size_t n, float weight, int skip, float *sum)
{
    tlc_values_add_scalar(v, n, weight, skip, sum);
}
