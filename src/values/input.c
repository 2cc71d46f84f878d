/* SPDX-License-Identifier: MIT */
#include "input.h"

const float *tlc_input_floats(const tlc_input *in, size_t at, size_t count, float *buf)
{
    if (!in->grad)
        return NULL;
    const void *src = in->grad + at * tlc_dtype_size(in->dtype);
    if (tlc_is_floats(in->dtype, src))
        return src;
    tlc_widen(in->k, in->dtype, src, count, buf);
    return buf;
}

/* How many values of a range can be taken at once. */
static size_t stride(const tlc_input *in, size_t left)
{
    int whole = !in->grad || tlc_is_floats(in->dtype, in->grad);
    return whole || left < TLC_PIECE ? left : TLC_PIECE;
}

uint32_t tlc_input_absmax(const tlc_input *in, size_t at, size_t count)
{
    float buf[TLC_PIECE];
    uint32_t max = 0;

    for (size_t end = at + count; at < end; at += count) {
        count = stride(in, end - at);
        uint32_t m = in->k->absmax(tlc_input_floats(in, at, count, buf), in->residual ? in->residual + at : NULL, count);
        max = m > max ? m : max;
    }
    return max;
}

uint32_t tlc_input_accumulate(const tlc_input *in, size_t at, size_t count)
{
    float buf[TLC_PIECE];
    uint32_t max = 0;

    for (size_t end = at + count; at < end; at += count) {
        count = stride(in, end - at);
        uint32_t m = in->k->accumulate(in->residual + at, tlc_input_floats(in, at, count, buf), count);
        max = m > max ? m : max;
    }
    return max;
}

void tlc_input_wanted(const tlc_input *in, size_t at, size_t count, float *buf)
{
    const float *r = in->residual + at;

    if (!in->grad) {
        memcpy(buf, r, count * sizeof *r);
        return;
    }
    const float *g = tlc_input_floats(in, at, count, buf);
    for (size_t i = 0; i < count; i++)
        buf[i] = g[i] + r[i];
}

const float *tlc_input_values(const tlc_input *in, size_t at, size_t count, float *buf)
{
    if (!in->residual)
        return tlc_input_floats(in, at, count, buf);
    if (!in->grad)
        return in->residual + at;
    tlc_input_wanted(in, at, count, buf);
    return buf;
}

void tlc_input_settle(const tlc_input *in, size_t at, size_t count, const float *wanted, const float *sent)
{
    for (size_t i = 0; i < count; i++)
        in->residual[at + i] = wanted[i] - sent[i];
}
