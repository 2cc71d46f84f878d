/* SPDX-License-Identifier: MIT
 *
 * Weights of any dtype that deltas know.
 */
#include "support.h"

unsigned weight_bits(tlc_dtype dtype)
{
    static const uint8_t bits[11] = {32, 16, 16, 8, 8, 4, 8, 4, 32, 64, 64};

    return bits[dtype];
}

size_t weights_size(tlc_dtype dtype, size_t n)
{
    return weight_bits(dtype) == 4 ? n / 2 : n * (weight_bits(dtype) / 8);
}

uint64_t weight_at(tlc_dtype dtype, const void *weights, size_t i)
{
    const uint8_t *p = weights;
    uint64_t x;
    uint32_t word;
    uint16_t half;

    switch (weight_bits(dtype)) {
    case 64: memcpy(&x, p + 8 * i, sizeof x); return x;
    case 32: memcpy(&word, p + 4 * i, sizeof word); return word;
    case 16: memcpy(&half, p + 2 * i, sizeof half); return half;
    case 8: return p[i];
    default: return i % 2 ? p[i / 2] >> 4 : p[i / 2] & 15;
    }
}

void put_weight(tlc_dtype dtype, void *weights, size_t i, uint64_t x)
{
    uint8_t *p = weights;
    const uint32_t word = (uint32_t)x;
    const uint16_t half = (uint16_t)x;

    switch (weight_bits(dtype)) {
    case 64: memcpy(p + 8 * i, &x, sizeof x); break;
    case 32: memcpy(p + 4 * i, &word, sizeof word); break;
    case 16: memcpy(p + 2 * i, &half, sizeof half); break;
    case 8: p[i] = (uint8_t)x; break;
    default: p[i / 2] = (uint8_t)(i % 2 ? (p[i / 2] & 15) | (x & 15) << 4 : (p[i / 2] & 0xf0) | (x & 15));
    }
}

/* Others than gradients are upper bits of float16, or of double. */
void fill_weights(uint64_t seed, tlc_dtype dtype, void *weights, size_t n)
{
    float *x = floats(n);
    uint16_t *halfs = (uint16_t *)(void *)bytes(2 * n);

    if (dtype <= TLC_BF16)
        fill_grad(DATA_LAPLACE, seed, dtype, weights, n);
    else {
        fill_grad(DATA_LAPLACE, seed, TLC_F32, x, n);
        fill_grad(DATA_LAPLACE, seed, TLC_F16, halfs, n);
    }
    for (size_t i = 0; dtype > TLC_BF16 && i < n; i++) {
        const double wide = (double)x[i];
        uint64_t bits;
        memcpy(&bits, &wide, sizeof bits);
        put_weight(dtype, weights, i,
                   weight_bits(dtype) < 32 ? (uint64_t)halfs[i] >> (16 - weight_bits(dtype))
                   : dtype == TLC_F64      ? bits
                                           : (uint64_t)(int64_t)(1e5 * wide));
    }
    free(x);
    free(halfs);
}
