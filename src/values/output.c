/* SPDX-License-Identifier: MIT */
#include "output.h"

/* Not for mode COUNT, which has no out. */
static float *floats_at(const tlc_output *o, size_t at)
{
    return (float *)o->out + at;
}

void tlc_output_values(const tlc_output *o, size_t at, size_t count, const float *values)
{
    uint64_t nonzero = 0;
    float *out;

    switch (o->mode) {
    case TLC_OUTPUT_WRITE:
        tlc_narrow(o->k, values, count, o->dtype, (uint8_t *)o->out + at * tlc_dtype_size(o->dtype));
        break;
    case TLC_OUTPUT_ADD: o->k->values_add(values, count, o->weight, o->has_zero, floats_at(o, at)); break;
    case TLC_OUTPUT_MASK:
        out = floats_at(o, at);
        for (size_t i = 0; i < count; i++)
            out[i] = values[i] != 0 ? 0.0f : out[i];
        break;
    case TLC_OUTPUT_COUNT:
        for (size_t i = 0; i < count; i++)
            nonzero += values[i] != 0;
        *o->nonzero += nonzero;
        break;
    }
}

/* ---- symbols ----------------------------------------------------------------------------------------------------- */

/* sum + product. A NaN has the same bits on every machine. */
static float add_canonical(float sum, float product)
{
    float x = sum + product;
    return x == x ? x : tlc_bits_float(TLC_F32_NAN);
}

/* For a weight * scale that has overflowed: the bits of infinity - infinity differ between machines. */
static void add_infinite(const int8_t *q, size_t count, float w, float *sum)
{
    for (size_t i = 0; i < count; i++)
        if (q[i])
            sum[i] = sum[i] == sum[i] ? add_canonical(sum[i], q[i] > 0 ? w : -w) : sum[i] + w;
}

static void add_symbols(const tlc_output *o, const int8_t *q, size_t count, float w, float *sum)
{
    if (tlc_finite(w))
        o->k->ternary_add(q, count, w, sum);
    else
        add_infinite(q, count, w, sum);
}

static void write_symbols(const tlc_output *o, size_t at, size_t count, const int8_t *q, float scale)
{
    float values[TLC_CHUNK], *out = tlc_output_in_place(o, at);

    o->k->ternary_decode(q, count, scale, out ? out : values);
    if (!out)
        tlc_output_values(o, at, count, values);
}

void tlc_output_symbols(const tlc_output *o, size_t at, size_t count, const int8_t *q, float scale)
{
    uint64_t nonzero = 0;
    float *out;

    switch (o->mode) {
    case TLC_OUTPUT_WRITE: write_symbols(o, at, count, q, scale); break;
    case TLC_OUTPUT_ADD: add_symbols(o, q, count, o->weight * scale, floats_at(o, at)); break;
    case TLC_OUTPUT_MASK:
        out = floats_at(o, at);
        for (size_t i = 0; i < count; i++)
            if (q[i])
                out[i] = 0.0f;
        break;
    case TLC_OUTPUT_COUNT:
        for (size_t i = 0; i < count; i++)
            nonzero += q[i] != 0;
        *o->nonzero += nonzero;
        break;
    }
}

/* ---- members by masks -------------------------------------------------------------------------------------------- */

size_t tlc_output_members(const tlc_output *o, size_t at, size_t count, const uint64_t *mask, const void *values,
                          size_t have, int sparse)
{
    float expanded[TLC_CHUNK];

    if (o->mode == TLC_OUTPUT_ADD && sparse)
        return tlc_expand_add_scalar(mask, count, values, have, o->weight, floats_at(o, at));
    if (o->mode == TLC_OUTPUT_ADD)
        return o->k->expand_add(mask, count, values, have, o->weight, floats_at(o, at));
    if (tlc_output_in_place(o, at))
        return o->k->expand(mask, count, values, have, floats_at(o, at));
    size_t taken = o->k->expand(mask, count, values, have, expanded);
    tlc_output_values(o, at, count, expanded);
    return taken;
}
