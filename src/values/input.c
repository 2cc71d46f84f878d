/* SPDX-License-Identifier: MIT */
#include "input.h"

const float *tlc_input_gradient(const tlc_input *in, size_t at, size_t count, float *buf)
{
    if (!in->grad)
        return NULL;
    const void *src = in->grad + at * tlc_dtype_size(in->dtype);
    if (tlc_is_floats(in->dtype, src))
        return src;
    tlc_widen(in->k, in->dtype, src, count, buf);
    return buf;
}

const float *tlc_input_wanted(const tlc_input *in, size_t at, size_t count, float *buf)
{
    if (!in->residual)
        return tlc_input_gradient(in, at, count, buf);
    const float *r = in->residual + at, *g = tlc_input_gradient(in, at, count, buf);
    if (!g)
        return r;
    for (size_t i = 0; i < count; i++)
        buf[i] = g[i] + r[i];
    return buf;
}

static size_t stride(const tlc_input *in, size_t left)
{
    return tlc_input_in_place(in) || left < TLC_CHUNK ? left : TLC_CHUNK;
}

uint32_t tlc_input_absmax(const tlc_input *in, size_t at, size_t count)
{
    float buf[TLC_CHUNK];
    uint32_t max = 0;

    for (size_t end = at + count; at < end; at += count) {
        count = stride(in, end - at);
        uint32_t m = in->k->absmax(tlc_input_gradient(in, at, count, buf), tlc_input_residual(in, at), count);
        max = m > max ? m : max;
    }
    return max;
}

uint32_t tlc_input_accumulate(const tlc_input *in, size_t at, size_t count)
{
    float buf[TLC_CHUNK];
    uint32_t max = 0;

    for (size_t end = at + count; at < end; at += count) {
        count = stride(in, end - at);
        uint32_t m = in->k->accumulate(in->residual + at, tlc_input_gradient(in, at, count, buf), count);
        max = m > max ? m : max;
    }
    return max;
}
