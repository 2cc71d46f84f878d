/* SPDX-License-Identifier: MIT
 *
 * Where decoded values go: written in any dtype, added with a weight, or used as a mask.
 */
#include "stage.h"

/* sum + product, with the one bit pattern for a NaN that every machine stores. */
static float add_canonical(float sum, float product)
{
    float x = sum + product;
    return x == x ? x : tlc_bits_float(TLC_F32_NAN);
}

/* A weight so large that weight * M overflows: infinity - infinity is a NaN whose bits differ between machines. */
static void add_infinite(const int8_t *q, size_t count, float w, float *sum)
{
    for (size_t i = 0; i < count; i++)
        if (q[i])
            sum[i] = sum[i] == sum[i] ? add_canonical(sum[i], q[i] > 0 ? w : -w) : sum[i] + w;
}

static void mask(const int8_t *q, size_t count, float *momentum)
{
    for (size_t i = 0; i < count; i++)
        if (q[i])
            momentum[i] = 0.0f;
}

void tlc_sink_symbols(const tlc_unit *u, size_t at, size_t count, const int8_t *q)
{
    float *out = (float *)u->sink->out + u->first + at;

    if (u->sink->mode == TLC_SINK_MASK)
        mask(q, count, out);
    else
        add_infinite(q, count, u->sink->weight * u->scalars[0], out);
}

void tlc_sink_floats(const tlc_unit *u, size_t at, size_t count, const float *values)
{
    const tlc_sink *s = u->sink;

    at += u->first;
    if (s->mode == TLC_SINK_WRITE) {
        tlc_narrow(u->k, values, count, s->dtype, (uint8_t *)s->out + at * tlc_dtype_size(s->dtype));
        return;
    }
    float *out = (float *)s->out + at;
    if (s->mode == TLC_SINK_MASK)
        for (size_t i = 0; i < count; i++)
            out[i] = values[i] != 0 ? 0.0f : out[i];
    else
        u->k->values_add(values, count, s->weight, u->codec->value->value->has_zero, out);
}
