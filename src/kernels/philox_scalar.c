/* SPDX-License-Identifier: MIT */
#include "../common/rng.h"
#include "kernels.h"

void tlc_philox_scalar(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *out)
{
    uint32_t words[4];

    for (size_t i = 0; i < n; i++) {
        uint64_t index = first + i;

        if (i == 0 || index % 4 == 0)
            tlc_philox_words(seed, step, index / 4, words);
        out[i] = words[index % 4];
    }
}
