/* SPDX-License-Identifier: MIT */
#include "kernels.h"

/* The number of values in the word that begins with value i. */
static size_t word_of(size_t i, size_t n)
{
    return n - i < 64 ? n - i : 64;
}

uint64_t tlc_symbol_masks_scalar(const int8_t *q, size_t n, uint64_t *nonzero, uint64_t *negative)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += 64) {
        uint64_t any = 0, minus = 0;

        for (size_t k = word_of(i, n); k--;) {
            any = any << 1 | (q[i + k] != 0);
            minus = minus << 1 | (q[i + k] < 0);
            count += q[i + k] != 0;
        }
        nonzero[i / 64] = any;
        if (negative)
            negative[i / 64] = minus;
    }
    return count;
}

uint64_t tlc_threshold_mask_scalar(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least,
                                   uint64_t *mask)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += 64) {
        uint64_t word = 0;

        for (size_t k = word_of(i, n); k--;) {
            uint64_t is = (int32_t)((tlc_float_bits(x[i + k]) ^ flip) & keep) >= least;

            word = word << 1 | is;
            count += is;
        }
        mask[i / 64] = word;
    }
    return count;
}

uint64_t tlc_random_mask_scalar(const float *x, const uint32_t *words, size_t n, uint32_t limit, uint64_t *mask)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += 64) {
        uint64_t word = 0;

        for (size_t k = word_of(i, n); k--;) {
            uint64_t is = words[i + k] >> 8 < limit && x[i + k] != 0;

            word = word << 1 | is;
            count += is;
        }
        mask[i / 64] = word;
    }
    return count;
}

uint64_t tlc_count_ones_scalar(const uint8_t *bits, size_t len)
{
    uint64_t count = 0;

    for (size_t i = 0; i < len; i++)
        count += (uint64_t)__builtin_popcount(bits[i]);
    return count;
}

/* The word that begins with value i, without bits beyond n. */
static uint64_t bits_of(const uint64_t *mask, size_t i, size_t n)
{
    return n - i < 64 ? mask[i / 64] & (((uint64_t)1 << (n - i)) - 1) : mask[i / 64];
}

size_t tlc_expand_scalar(const uint64_t *mask, size_t n, const void *values, size_t have, float *out)
{
    const uint8_t *from = values;

    (void)have;
    for (size_t i = 0; i < n; i += 64) {
        memset(out + i, 0, word_of(i, n) * sizeof *out);
        for (uint64_t bits = bits_of(mask, i, n); bits; bits &= bits - 1, from += sizeof *out)
            memcpy(out + i + __builtin_ctzll(bits), from, sizeof *out);
    }
    return (size_t)(from - (const uint8_t *)values) / sizeof *out;
}

size_t tlc_expand_add_scalar(const uint64_t *mask, size_t n, const void *values, size_t have, float weight, float *sum)
{
    const uint8_t *from = values;

    (void)have;
    for (size_t i = 0; i < n; i += 64)
        for (uint64_t bits = bits_of(mask, i, n); bits; bits &= bits - 1, from += sizeof *sum) {
            float *to = sum + i + __builtin_ctzll(bits), value, x;

            memcpy(&value, from, sizeof value);
            x = *to + weight * value;
            *to = x == x ? x : tlc_bits_float(TLC_F32_NAN);
        }
    return (size_t)(from - (const uint8_t *)values) / sizeof *sum;
}

size_t tlc_compact_scalar(const float *x, const uint64_t *mask, size_t n, float *out)
{
    float *to = out;

    for (size_t i = 0; i < n; i += 64)
        for (uint64_t bits = bits_of(mask, i, n); bits; bits &= bits - 1)
            memcpy(to++, x + i + __builtin_ctzll(bits), sizeof *to); /* a float in a register may lose its NaN's bits */
    return (size_t)(to - out);
}

size_t tlc_threshold_values_scalar(const float *x, size_t n, uint32_t flip, uint32_t keep, int32_t least, float *out)
{
    size_t count = 0;

    for (size_t i = 0; i < n; i++)
        if ((int32_t)((tlc_float_bits(x[i]) ^ flip) & keep) >= least)
            memcpy(&out[count++], &x[i], sizeof *x);
    return count;
}
