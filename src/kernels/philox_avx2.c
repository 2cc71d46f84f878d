/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_philox_avx2(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out)
{
    tlc_philox_scalar(seed, step, first, n, out);
}
