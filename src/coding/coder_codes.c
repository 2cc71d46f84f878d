/* SPDX-License-Identifier: MIT
 *
 * Payloads of codes: a u32 count if the layout has one, then the planes.
 */
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "coder.h"
#include "feedback.h"

enum {
    GRAIN = 8, /* chunks begin at multiples of 8 values, so that their codes begin at whole bytes */
    HEAD = 4   /* bytes of the count */
};

static tlc_layout layout_of(const tlc_coding *c)
{
    tlc_layout layout = c->unit.quantizer->layout(c->unit.params, c->unit.dtype);

    layout.counted = TLC_IS_BUILT(TLC_WITH_NATURAL) && layout.counted && !c->without_count;
    if (!TLC_IS_BUILT(TLC_WITH_NATURAL))
        layout.bits[1] = 0;
    return layout;
}

/* ceil(n * bits / 8) */
static uint64_t plane_size(unsigned bits, uint64_t n)
{
    return bits % 8 == 0 ? tlc_product(n, bits / 8) : tlc_ceil_div(n, 8 / bits);
}

static uint64_t payload_size(const tlc_layout *layout, uint64_t n)
{
    uint64_t size = tlc_sum(layout->counted ? HEAD : 0, plane_size(layout->bits[0], n));
    return layout->bits[1] ? tlc_sum(size, plane_size(layout->bits[1], n)) : size;
}

uint64_t tlc_codes_planes(const tlc_layout *layout, uint64_t n, const uint8_t *payload, const uint8_t *planes[2])
{
    planes[0] = payload + (layout->counted ? HEAD : 0);
    planes[1] = planes[0] + plane_size(layout->bits[0], n);
    return payload_size(layout, n);
}

/* Where in a plane the code of value `at` begins; at is a multiple of GRAIN. */
static size_t offset(unsigned bits, size_t at)
{
    return at / GRAIN * bits;
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    tlc_layout layout = codec->quantizer->quantize->layout(codec->params, dtype);
    return payload_size(&layout, n);
}

/* The values of a unit, in ranges of whole columns. */
typedef struct codes_work {
    const tlc_coding *c;
    tlc_layout layout;
    tlc_ranges ranges; /* of columns */
    const uint8_t *plane[2];
    uint8_t *dst[2]; /* the same, for encoding */
    uint64_t count[TLC_RANGES_MAX];
} codes_work;

static void begin(codes_work *w, const tlc_coding *c, const uint8_t *payload)
{
    w->c = c;
    w->layout = layout_of(c);
    (void)tlc_codes_planes(&w->layout, c->unit.n, payload, w->plane);
}

static size_t range_start(const codes_work *w, size_t i)
{
    return tlc_smaller(tlc_range_start(&w->ranges, i) * GRAIN, (size_t)w->c->unit.n);
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* Copies the bytes of the gradient. */
static void encode_exact(const codes_work *w, size_t at, size_t end)
{
    const tlc_unit *u = &w->c->unit;
    size_t size = tlc_dtype_size(u->dtype);

    tlc_copy_le(w->dst[0] + at * size, u->input->grad + (u->first + at) * size, end - at, size);
}

static void encode_fused(const codes_work *w, size_t at, size_t end)
{
    const tlc_unit *u = &w->c->unit;
    float converted[TLC_CHUNK];

    for (size_t count; at < end; at += count) {
        size_t index = u->first + at;
        count = tlc_input_in_place(u->input) ? end - at : tlc_smaller(end - at, TLC_CHUNK);
        w->c->fused->encode(u, tlc_input_gradient(u->input, index, count, converted),
                            tlc_input_residual(u->input, index), count, w->dst[0] + offset(w->layout.bits[0], at));
    }
}

static uint64_t encode_chunks(const codes_work *w, size_t at, size_t end)
{
    const tlc_unit *u = &w->c->unit;
    float wanted[TLC_CHUNK];
    uint64_t sum = 0;
    tlc_chunk c;

    for (c.at = at; c.at < end; c.at += c.count) {
        c.count = tlc_smaller(end - c.at, TLC_CHUNK);
        c.x = tlc_unit_values(u, c.at, c.count, wanted);
        c.codes[0] = w->dst[0] + offset(w->layout.bits[0], c.at);
        c.codes[1] = w->dst[1] + offset(w->layout.bits[1], c.at);
        sum += u->quantizer->encode(u, &c);
        tlc_feedback_codes(u, &c);
    }
    return sum;
}

static void encode_range(void *arg, size_t i)
{
    codes_work *w = arg;
    const tlc_unit *u = &w->c->unit;
    size_t from = range_start(w, i), to = range_start(w, i + 1);

    w->count[i] = 0;
    if (u->quantizer->exact && !u->input->residual)
        encode_exact(w, from, to);
    else if (TLC_IS_BUILT(TLC_WITH_ONEBIT) && w->c->fused && w->c->fused->encode)
        encode_fused(w, from, to);
    else
        w->count[i] = encode_chunks(w, from, to);
}

static size_t encode(tlc_coding *c, uint8_t *dst)
{
    codes_work w;

    begin(&w, c, dst);
    w.ranges = tlc_ranges_split(c->parallel, (size_t)tlc_ceil_div(c->unit.n, GRAIN), TLC_RANGE_MIN / GRAIN);
    w.dst[0] = dst + (w.plane[0] - dst);
    w.dst[1] = dst + (w.plane[1] - dst);
    tlc_ranges_run(c->parallel, w.ranges.count, encode_range, &w);
    c->clipped = 0;
    for (size_t i = 0; i < w.ranges.count; i++)
        c->clipped += w.count[i];
    if (w.layout.counted)
        tlc_store32(dst, c->clipped < UINT32_MAX ? (uint32_t)c->clipped : UINT32_MAX);
    return (size_t)payload_size(&w.layout, c->unit.n);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* Are the bits after the last code 0? */
static int padding_valid(unsigned bits, const uint8_t *plane, uint64_t n)
{
    unsigned used = (unsigned)(n % GRAIN * bits % 8);
    return !used || plane[plane_size(bits, n) - 1] >> used == 0;
}

static int check(const tlc_coding *c)
{
    const tlc_unit *u = &c->unit;
    tlc_layout layout = layout_of(c);
    const uint8_t *planes[2];

    if (c->len != payload_size(&layout, u->n) || (layout.counted && tlc_load32(c->payload) > u->n))
        return 0;
    (void)tlc_codes_planes(&layout, u->n, c->payload, planes);
    if (!padding_valid(layout.bits[0], planes[0], u->n) ||
        (layout.bits[1] && !padding_valid(layout.bits[1], planes[1], u->n)))
        return 0;
    return !u->quantizer->valid || u->quantizer->valid(u, planes);
}

static void decode_exact(const codes_work *w, size_t at, size_t end)
{
    const tlc_unit *u = &w->c->unit;
    size_t size = tlc_dtype_size(u->dtype);

    tlc_copy_le((uint8_t *)w->c->output->out + (u->first + at) * size, w->plane[0] + at * size, end - at, size);
}

static void decode_chunks(const codes_work *w, size_t at, size_t end)
{
    const tlc_output *o = w->c->output;
    const tlc_unit *u = &w->c->unit;
    float values[TLC_CHUNK];

    for (size_t count; at < end; at += count) {
        const uint8_t *const codes[2] = {w->plane[0] + offset(w->layout.bits[0], at),
                                         w->plane[1] + offset(w->layout.bits[1], at)};
        float *out = tlc_output_in_place(o, u->first + at);
        count = tlc_smaller(end - at, TLC_CHUNK);
        u->quantizer->decode(u, codes, count, out ? out : values);
        if (!out)
            tlc_output_values(o, u->first + at, count, values);
    }
}

static size_t streams(const tlc_coding *c)
{
    (void)c;
    return 1;
}

static void decode(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    const tlc_output *o = c->output;
    const tlc_unit *u = &c->unit;
    codes_work w;

    (void)place;
    begin(&w, c, c->payload);
    if (u->quantizer->exact && o->mode == TLC_OUTPUT_WRITE && o->dtype == u->dtype)
        decode_exact(&w, from, to);
    else if (TLC_IS_BUILT(TLC_WITH_ONEBIT | TLC_WITH_NATURAL) && c->fused && c->fused->decode_and_add &&
             o->mode == TLC_OUTPUT_ADD && !w.layout.bits[1])
        c->fused->decode_and_add(u, w.plane[0] + offset(w.layout.bits[0], from), to - from, o->weight,
                                 (float *)o->out + u->first + from);
    else
        decode_chunks(&w, from, to);
}

const tlc_coder tlc_coder_of_codes = {
    .bound = bound,
    .encode = encode,
    .check = check,
    .streams = streams,
    .decode = decode,
};
