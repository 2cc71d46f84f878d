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

/* weight * M may overflow: infinity - infinity is a NaN whose bits differ between machines. */
static void add(const int8_t *q, size_t count, float w, float *sum)
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
    float M = u->scalars[0], *out = u->sink->out, values[TLC_PIECE];

    if (u->sink->mode == TLC_SINK_MASK)
        mask(q, count, out + u->first + at);
    else if (u->sink->mode == TLC_SINK_ADD)
        add(q, count, u->sink->weight * M, out + u->first + at);
    else if (tlc_is_floats(u->sink->dtype, out))
        tlc_ternary_decode_scalar(q, count, M, out + u->first + at);
    else {
        tlc_ternary_decode_scalar(q, count, M, values);
        tlc_sink_floats(u, at, count, values);
    }
}

void tlc_sink_floats(const tlc_unit *u, size_t at, size_t count, const float *values)
{
    const tlc_sink *s = u->sink;

    at += u->first;
    if (s->mode == TLC_SINK_WRITE) {
        tlc_narrow(u->k, values, count, s->dtype, (uint8_t *)s->out + at * tlc_dtype_size(s->dtype));
        return;
    }
    float *sum = (float *)s->out + at;
    for (size_t i = 0; i < count; i++)
        sum[i] = add_canonical(sum[i], s->weight * values[i]);
}
