/* SPDX-License-Identifier: MIT */
#include "kernels.h"

enum { LANES = 16 };

static double fold(double lane[LANES])
{
    for (size_t half = LANES / 2; half; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

uint32_t tlc_side_sums_scalar(const float *g, const float *r, size_t n, double sums[2], uint32_t *count)
{
    double lane[2][LANES] = {{0}};
    uint32_t max = 0, upper = 0;

    for (size_t i = 0; i < n; i++) {
        float x = !r ? g[i] : !g ? r[i] : g[i] + r[i];
        uint32_t magnitude = tlc_float_bits(x) & TLC_F32_ABS;

        max = magnitude > max ? magnitude : max;
        upper += x >= 0;
        lane[x >= 0 ? 0 : 1][i % LANES] += (double)x;
    }
    sums[0] = fold(lane[0]);
    sums[1] = fold(lane[1]);
    *count = upper;
    return max;
}

void tlc_onebit_encode_scalar(const float *g, float *r, size_t n, const float mean[2], uint8_t *bits)
{
    for (size_t i = 0; i < n; i += 8) {
        unsigned byte = 0;

        for (size_t k = 0; k < 8 && i + k < n; k++) {
            float x = !r ? g[i + k] : !g ? r[i + k] : g[i + k] + r[i + k];
            unsigned bit = x >= 0;

            byte |= bit << k;
            if (r)
                r[i + k] = x - mean[!bit];
        }
        bits[i / 8] = (uint8_t)byte;
    }
}

void tlc_onebit_decode_scalar(const uint8_t *bits, size_t n, const float mean[2], float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = mean[!(bits[i / 8] >> i % 8 & 1)];
}

void tlc_onebit_add_scalar(const uint8_t *bits, size_t n, const float mean[2], float *sum)
{
    for (size_t i = 0; i < n; i++) {
        float x = sum[i] + mean[!(bits[i / 8] >> i % 8 & 1)];
        sum[i] = x == x ? x : tlc_bits_float(TLC_F32_NAN);
    }
}
