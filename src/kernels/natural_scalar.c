/* SPDX-License-Identifier: MIT
 *
 * Rounds to powers of two on the bits of a float. Adding a random unit (or half a unit) to the mantissa carries into
 * the exponent with the right probability.
 */
#include "kernels.h"

/* The exponent that x goes to; x is not 0. */
static int rounded_exponent(uint32_t magnitude, const uint32_t *word)
{
    int exponent = (int)(magnitude >> 23) - 127;
    uint32_t mantissa = magnitude & 0x7fffff;

    if (exponent < -126) { /* subnormal: the leading bit moves to where it is implied */
        int up = __builtin_clz(mantissa) - 8;
        mantissa = mantissa << up & 0x7fffff;
        exponent = -126 - up;
    }
    return exponent + (word ? *word >> 9 < mantissa : mantissa >= 0x400000);
}

static int clip(int e, int least, int most, uint64_t *clipped)
{
    *clipped += e < least || e > most;
    return e < least ? least : e > most ? most : e;
}

uint64_t tlc_natural_encode_scalar(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out)
{
    uint64_t clipped = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits = tlc_float_bits(x[i]), magnitude = bits & TLC_F32_ABS;

        out[i] = TLC_NATURAL_ZERO;
        if (magnitude) {
            int e = rounded_exponent(magnitude, words ? words + i : NULL) - shift;
            e = clip(e, TLC_NATURAL_LEAST, TLC_NATURAL_MOST, &clipped);
            out[i] = (uint8_t)(bits >> 31 << 7 | (uint32_t)(e - TLC_NATURAL_LEAST));
        }
    }
    return clipped;
}

void tlc_natural_decode_scalar(const uint8_t *in, size_t n, int shift, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t exponent = (in[i] & 0x7fu) + (uint32_t)(TLC_NATURAL_LEAST + 127 + shift);
        out[i] = in[i] == TLC_NATURAL_ZERO ? 0.0f : tlc_bits_float((uint32_t)(in[i] >> 7) << 31 | exponent << 23);
    }
}

void tlc_natural_add_scalar(const uint8_t *in, size_t n, int shift, float weight, float *sum)
{
    for (size_t i = 0; i < n; i++) {
        float value;
        tlc_natural_decode_scalar(in + i, 1, shift, &value);
        if (in[i] != TLC_NATURAL_ZERO)
            tlc_values_add_scalar(&value, 1, weight, 0, sum + i);
    }
}

uint64_t tlc_natural9_encode_scalar(const float *x, const uint32_t *words, size_t n, int shift, uint8_t *out,
                                    uint8_t *signs)
{
    uint64_t clipped = 0;

    for (size_t i = 0; i < n; i++) {
        uint32_t bits = tlc_float_bits(x[i]), magnitude = bits & TLC_F32_ABS;
        int e = -127;

        if (magnitude)
            e = clip(rounded_exponent(magnitude, words ? words + i : NULL) - shift, -126, 127 - shift, &clipped);
        out[i] = (uint8_t)(e + 127);
        if (i % 8 == 0)
            signs[i / 8] = 0;
        signs[i / 8] |= (uint8_t)((magnitude ? bits >> 31 : 0) << i % 8);
    }
    return clipped;
}

void tlc_natural9_decode_scalar(const uint8_t *in, const uint8_t *signs, size_t n, int shift, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t sign = (uint32_t)(signs[i / 8] >> i % 8) & 1u;
        out[i] = in[i] ? tlc_bits_float(sign << 31 | (uint32_t)(in[i] + shift) << 23) : 0.0f;
    }
}
