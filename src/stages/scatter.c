/* SPDX-License-Identifier: MIT */
#include "scatter.h"

enum { FILL = 4096 }; /* values that are cleared before the first of them is written: they stay in the first-level cache */
enum { FEW = 16 };    /* where fewer than one in so many are added, one after the other is faster than vectors */

void tlc_scatter_begin(tlc_scatter *s, const tlc_unit *u)
{
    s->u = u;
    s->filled = s->window = 0;
    memset(s->values, 0, sizeof s->values);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- floats in place --------------------------------------------------------------------------------------------- */

static void clear(tlc_scatter *s, size_t end)
{
    if (end > s->filled)
        memset((float *)s->u->sink->out + s->u->first + s->filled, 0, (end - s->filled) * sizeof(float));
    s->filled = end;
}

static void write(tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    float *out = (float *)s->u->sink->out + s->u->first;

    for (size_t i = 0; i < count; i++) {
        if (index[i] >= s->filled)
            clear(s, smaller((index[i] / FILL + 1) * FILL, (size_t)s->u->n));
        out[index[i]] = value[i];
    }
}

/* ---- another dtype ----------------------------------------------------------------------------------------------- */

/* The window goes to the sink, and the next one begins. */
static void advance(tlc_scatter *s)
{
    size_t count = smaller((size_t)s->u->n - s->window, TLC_PIECE);

    tlc_sink_floats(s->u, s->window, count, s->values);
    s->window += count;
    memset(s->values, 0, sizeof s->values);
}

static void convert(tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        while (index[i] - s->window >= TLC_PIECE)
            advance(s);
        s->values[index[i] - s->window] = value[i];
    }
}

/* ---- others ------------------------------------------------------------------------------------------------------ */

/* A NaN in a sum of symbols stays what it was, made quiet; in a sum of values all are one. */
static inline float sum_of(float old, float product, int symbols)
{
    float sum = old + product;
    return sum == sum || (symbols && old != old) ? sum : tlc_bits_float(TLC_F32_NAN);
}

static void add(const tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    float *out = (float *)s->u->sink->out + s->u->first, weight = s->u->sink->weight;
    int symbols = s->u->codec->value->out != TLC_KIND_BYTES;

    for (size_t i = 0; i < count; i++)
        out[index[i]] = sum_of(out[index[i]], weight * value[i], symbols);
}

static int in_place(const tlc_scatter *s)
{
    return tlc_is_floats(s->u->sink->dtype, s->u->sink->out);
}

void tlc_scatter_batch(tlc_scatter *s, const size_t *index, const float *value, size_t count)
{
    const tlc_sink *sink = s->u->sink;

    if (sink->mode == TLC_SINK_ADD)
        add(s, index, value, count);
    else if (sink->mode == TLC_SINK_MASK)
        for (size_t i = 0; i < count; i++)
            ((float *)sink->out)[s->u->first + index[i]] = 0.0f;
    else if (in_place(s))
        write(s, index, value, count);
    else
        convert(s, index, value, count);
}

void tlc_scatter_end(tlc_scatter *s)
{
    if (s->u->sink->mode != TLC_SINK_WRITE)
        return;
    if (in_place(s)) {
        clear(s, (size_t)s->u->n);
        return;
    }
    while (s->window < s->u->n)
        advance(s);
}

const uint8_t *tlc_scatter_stored(tlc_scatter *s, const size_t *index, const uint8_t *values, size_t count)
{
    float value[TLC_BATCH];

    tlc_copy_le(value, values, count, sizeof *value);
    tlc_scatter_batch(s, index, value, count);
    return values + count * sizeof *value;
}

/* ---- by masks ---------------------------------------------------------------------------------------------------- */

/* The values in the machine's byte order: as they lie, or in native. */
static const void *stored(const uint8_t *values, size_t have, float *native)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    (void)have;
    (void)native;
    return values;
#else
    tlc_copy_le(native, values, have, sizeof *native);
    return native;
#endif
}

const uint8_t *tlc_expand_stored(const tlc_unit *u, size_t at, size_t count, const uint64_t *mask, const uint8_t *values,
                                 const uint8_t *end)
{
    const tlc_sink *sink = u->sink;
    float piece[TLC_PIECE], native[TLC_PIECE], *out = (float *)sink->out + u->first + at;
    size_t left = (size_t)(end - values) / sizeof(float), have = smaller(left, TLC_PIECE), taken;
    const void *from = stored(values, have, native);

    if (sink->mode == TLC_SINK_ADD && left < (u->n - at) / FEW)
        taken = tlc_expand_add_scalar(mask, count, from, have, sink->weight, out);
    else if (sink->mode == TLC_SINK_ADD)
        taken = u->k->expand_add(mask, count, from, have, sink->weight, out);
    else if (sink->mode == TLC_SINK_WRITE && tlc_is_floats(sink->dtype, sink->out))
        taken = u->k->expand(mask, count, from, have, out);
    else {
        taken = u->k->expand(mask, count, from, have, piece);
        tlc_sink_floats(u, at, count, piece);
    }
    return values + taken * sizeof(float);
}

int tlc_sent_values_valid(const uint8_t *src, size_t count)
{
    unsigned bad = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = tlc_load32(src + i * sizeof(float)) & TLC_F32_ABS;
        bad |= magnitude - 1 >= TLC_F32_INF - 1;
    }
    return !bad;
}
