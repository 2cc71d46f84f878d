/* SPDX-License-Identifier: MIT */
#include "../common/sizes.h"
#include "output.h"

/* Values that are set to 0 at a time, before members are written: they fit the first-level cache. */
enum { FILL = 4096 };

void tlc_scatter_begin(tlc_scatter *s, const tlc_output *o, size_t first, size_t from, size_t to)
{
    s->o = o;
    s->first = first;
    s->end = to;
    s->filled = s->window = from;
    if (o->mode == TLC_OUTPUT_WRITE && !tlc_output_in_place(o, 0))
        memset(s->values, 0, sizeof s->values);
}

/* ---- floats in place --------------------------------------------------------------------------------------------- */

static void clear(tlc_scatter *s, size_t end)
{
    if (end > s->filled)
        memset((float *)s->o->out + s->first + s->filled, 0, (end - s->filled) * sizeof(float));
    s->filled = end;
}

static void write(tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    float *out = (float *)s->o->out + s->first;

    for (size_t i = 0; i < count; i++) {
        if (index[i] >= s->filled)
            clear(s, tlc_smaller((index[i] / FILL + 1) * FILL, s->end));
        out[index[i]] = value[i];
    }
}

/* ---- another dtype ----------------------------------------------------------------------------------------------- */

/* Outputs the window, and goes to the next one. */
static void advance(tlc_scatter *s)
{
    tlc_output_values(s->o, s->first + s->window, tlc_smaller(s->end - s->window, TLC_CHUNK), s->values);
    s->window += TLC_CHUNK;
    memset(s->values, 0, sizeof s->values);
}

static void convert(tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        while (index[i] - s->window >= TLC_CHUNK)
            advance(s);
        s->values[index[i] - s->window] = value[i];
    }
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

/* With symbols, a NaN in the sum stays that NaN, made quiet. Otherwise all NaNs become the same. */
static inline float sum_of(float old, float product, int is_symbols)
{
    float sum = old + product;
    return sum == sum || (is_symbols && old != old) ? sum : tlc_bits_float(TLC_F32_NAN);
}

static void add(const tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    float *out = (float *)s->o->out + s->first, weight = s->o->weight;
    int is_symbols = s->o->is_symbols;

    for (size_t i = 0; i < count; i++)
        out[index[i]] = sum_of(out[index[i]], weight * value[i], is_symbols);
}

void tlc_scatter_batch(tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    switch (s->o->mode) {
    case TLC_OUTPUT_WRITE:
        if (tlc_output_in_place(s->o, 0))
            write(s, index, value, count);
        else
            convert(s, index, value, count);
        break;
    case TLC_OUTPUT_ADD: add(s, index, value, count); break;
    case TLC_OUTPUT_MASK:
        for (size_t i = 0; i < count; i++)
            ((float *)s->o->out)[s->first + index[i]] = 0.0f;
        break;
    case TLC_OUTPUT_COUNT: break; /* members are counted without their positions */
    }
}

void tlc_scatter_end(tlc_scatter *s)
{
    if (s->o->mode != TLC_OUTPUT_WRITE)
        return;
    if (tlc_output_in_place(s->o, 0)) {
        clear(s, s->end);
        return;
    }
    while (s->window < s->end)
        advance(s);
}
