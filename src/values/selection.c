/* SPDX-License-Identifier: MIT */
#include "selection.h"

uint64_t tlc_selection_mask(const tlc_selection *s, const tlc_kernels *k, const float *x, size_t at, size_t count,
                            uint64_t *mask)
{
    uint64_t members = k->threshold_mask(x, count, s->flip, s->keep, s->least, mask);

    if (!members || at + count - 1 <= s->last)
        return members;
    for (size_t w = 0; w * 64 < count; w++)
        for (uint64_t bits = mask[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            if (at + i > s->last && tlc_selection_key(s, x[i]) == (uint32_t)s->least) {
                mask[w] &= ~(bits & -bits);
                members--;
            }
        }
    return members;
}

void tlc_mask_keep_first(uint64_t *mask, size_t count, size_t k)
{
    for (size_t w = 0; w * 64 < count; w++) {
        uint64_t left = mask[w];
        for (; left && k; k--)
            left &= left - 1;
        mask[w] &= ~left;
    }
}
