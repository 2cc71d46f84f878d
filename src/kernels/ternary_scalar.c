/* SPDX-License-Identifier: MIT */
#include "kernels.h"

void tlc_ternary_encode_scalar(const float *g, float *r, size_t n, float M, int8_t *q)
{
    float t = 0.5f * M;

    for (size_t i = 0; i < n; i++) {
        float x = !r ? g[i] : !g ? r[i] : g[i] + r[i];
        int up = x > t, down = x < -t;

        q[i] = (int8_t)(up - down);
        if (r)
            r[i] = up ? x - M : down ? x + M : x;
    }
}

void tlc_ternary_decode_scalar(const int8_t *q, size_t n, float M, float *out)
{
    for (size_t i = 0; i < n; i++)
        out[i] = q[i] > 0 ? M : q[i] < 0 ? -M : 0.0f;
}

void tlc_ternary_add_scalar(const int8_t *q, size_t n, float w, float *sum)
{
    for (size_t i = 0; i < n; i++)
        if (q[i])
            sum[i] = q[i] > 0 ? sum[i] + w : sum[i] - w;
}
