/* SPDX-License-Identifier: MIT
 *
 * Payloads of positions: the positions of the members, then their values if the quantizer sends any (member_values.h).
 * 3-value symbols come here too: those that are not 0 are members and have a sign. If their positions would not be
 * shorter than the bytes of the packer's fallback, the payload has these bytes.
 */
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "coder.h"
#include "feedback.h"
#include "member_values.h"

enum { WORD = 64 };

static const tlc_quantizer *quantizer_of(const tlc_codec *codec)
{
    return codec->quantizer->quantize;
}

static int has_signs(const tlc_codec *codec)
{
    return quantizer_of(codec)->makes == TLC_MAKES_SYMBOLS;
}

static unsigned value_bits(const tlc_codec *codec)
{
    return tlc_value_bits(quantizer_of(codec), codec->params);
}

/* The most bytes of positions, without values. */
static uint64_t positions_bound(const tlc_codec *codec, uint64_t n)
{
    return tlc_codec_positions(codec)->bound(n, quantizer_of(codec)->members_max(codec->params, n), 0);
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    if (has_signs(codec))
        return tlc_coder_of_symbols.bound(codec, dtype, n);
    uint64_t members = quantizer_of(codec)->members_max(codec->params, n);
    return tlc_sum(positions_bound(codec, n), tlc_values_size(value_bits(codec), members));
}

/* If positions are encoded all at once: the mask of members, and of negative ones. */
static uint64_t scratch(const tlc_codec *codec, uint64_t n)
{
    uint64_t masks = !tlc_codec_positions(codec)->whole ? 0 : has_signs(codec) ? 2 : 1;
    return tlc_ceil_div(n, WORD) * sizeof(uint64_t) * masks;
}

/* ---- masks in scratch -------------------------------------------------------------------------------------------- */

static uint64_t *negative_mask(const tlc_coding *c)
{
    return has_signs(c->codec) ? c->scratch + tlc_ceil_div(c->unit.n, WORD) : NULL;
}

/* Makes the symbols of a chunk, and updates the residual. */
static void encode_symbols(const tlc_coding *c, tlc_chunk *chunk)
{
    float converted[TLC_CHUNK];
    const tlc_unit *u = &c->unit;
    size_t index = u->first + chunk->at;

    if (c->fused && c->fused->encode) {
        c->fused->encode(u, tlc_input_gradient(u->input, index, chunk->count, converted),
                         tlc_input_residual(u->input, index), chunk->count, chunk->symbols);
        return;
    }
    chunk->x = tlc_unit_values(u, chunk->at, chunk->count, converted);
    (void)u->quantizer->encode(u, chunk);
    tlc_feedback_symbols(u, chunk);
}

/* Finds at most `room` members of a chunk, and updates the residual. Returns how many there are. */
static size_t encode_members(const tlc_coding *c, tlc_chunk *chunk, uint64_t room)
{
    const tlc_unit *u = &c->unit;
    float wanted[TLC_CHUNK];
    int whole = value_bits(c->codec) == 32; /* fused kernels send values as they are */

    if (whole && c->fused && c->fused->encode_members && u->input->residual && !u->input->grad && room >= chunk->count)
        return c->fused->encode_members(u, chunk, u->input->residual + u->first + chunk->at);
    chunk->x = tlc_unit_values(u, chunk->at, chunk->count, wanted);
    size_t k = (size_t)u->quantizer->encode(u, chunk);
    if (k > room) {
        k = (size_t)room;
        tlc_mask_keep_first(chunk->mask, chunk->count, k);
    }
    if (!u->quantizer->value_bits && u->input->residual)
        for (size_t i = 0; i < k; i++)
            chunk->values[i] = u->scalars[0];
    tlc_feedback_members(u, chunk, k);
    return k;
}

typedef struct mask_work {
    const tlc_coding *c;
    tlc_ranges ranges; /* of words */
    uint64_t k[TLC_RANGES_MAX];
} mask_work;

static void mask_range(void *arg, size_t i)
{
    mask_work *w = arg;
    const tlc_coding *c = w->c;
    size_t from = tlc_range_start(&w->ranges, i) * WORD, to = tlc_range_start(&w->ranges, i + 1) * WORD;
    int8_t symbols[TLC_CHUNK];
    float values[TLC_CHUNK];
    uint64_t k = 0;

    to = tlc_smaller(to, (size_t)c->unit.n);
    for (size_t at = from, count; at < to; at += count) {
        uint64_t *mask = c->scratch + at / WORD;
        tlc_chunk chunk = {.at = at, .symbols = symbols, .mask = mask, .values = values};
        chunk.count = count = tlc_smaller(to - at, TLC_CHUNK);
        if (has_signs(c->codec)) {
            encode_symbols(c, &chunk);
            k += c->unit.k->symbol_masks(symbols, count, mask, negative_mask(c) + at / WORD);
        } else
            k += encode_members(c, &chunk, UINT64_MAX);
    }
    w->k[i] = k;
}

/* Fills the masks. Returns how many members there are. */
static uint64_t fill_masks(const tlc_coding *c)
{
    uint64_t k = 0;
    mask_work w;

    w.c = c;
    w.ranges = tlc_ranges_split(c->parallel, (size_t)tlc_ceil_div(c->unit.n, WORD), TLC_RANGE_MIN);
    tlc_ranges_run(c->parallel, w.ranges.count, mask_range, &w);
    for (size_t i = 0; i < w.ranges.count; i++)
        k += w.k[i];
    return k;
}

/* ---- the fallback ------------------------------------------------------------------------------------------------ */

/* Eight bits of a mask, from bit `at` on. Bits after the end of the mask are 0. */
static unsigned eight_bits(const uint64_t *mask, size_t at, size_t words)
{
    uint64_t low = mask[at / WORD] >> at % WORD;
    uint64_t high = at % WORD > WORD - 8 && at / WORD + 1 < words ? mask[at / WORD + 1] << (WORD - at % WORD) : 0;
    return (unsigned)((low | high) & 0xff);
}

/* Makes a byte 0 or 1 of each of eight bits; the lowest bit comes first in memory. */
static uint64_t spread(unsigned bits)
{
    uint64_t ends = (bits & 0x7f) * UINT64_C(0x02040810204081) & UINT64_C(0x0101010101010101);
    return ends | (uint64_t)(bits >> 7) << 56;
}

/* Makes count symbols of the masks, from index `at` on. Up to 7 more may be written. */
static void symbols_of_masks(const tlc_coding *c, size_t at, size_t count, int8_t *q)
{
    size_t words = (size_t)tlc_ceil_div(c->unit.n, WORD);

    for (size_t i = 0; i < count; i += 8) {
        uint64_t any = spread(eight_bits(c->scratch, at + i, words));
        uint64_t minus = spread(eight_bits(negative_mask(c), at + i, words));
        tlc_store64(q + i, any | minus * 0xff); /* 1, or 255 where negative */
    }
}

static size_t encode_fallback(const tlc_coding *c, uint8_t *dst)
{
    const tlc_packer *p = tlc_codec_symbol_packer(c->codec);
    int8_t symbols[TLC_STREAMS_MAX][TLC_CHUNK + 8];
    size_t n = (size_t)c->unit.n, len = (size_t)tlc_ceil_div(n, p->streams);
    const int8_t *q[TLC_STREAMS_MAX];

    for (size_t at = 0, count; at < len; at += count) {
        count = tlc_smaller(len - at, TLC_CHUNK);
        for (size_t k = 0; k < p->streams; k++) {
            size_t index = k * len + at, some = index >= n ? 0 : tlc_smaller(n - index, count);
            q[k] = symbols[k];
            symbols_of_masks(c, index, some, symbols[k]);
            memset(symbols[k] + some, -1, count - some); /* digit 0 */
        }
        p->encode(c->unit.k, q, count, dst + at);
    }
    return len;
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

static tlc_members all_members(const tlc_coding *c, uint64_t k)
{
    return (tlc_members){c->scratch, negative_mask(c), c->unit.n, k};
}

static size_t encode_signed(tlc_coding *c, uint8_t *dst)
{
    tlc_members members = all_members(c, fill_masks(c));
    size_t cap = (size_t)bound(c->codec, c->unit.dtype, c->unit.n) - 1; /* strictly shorter than the fallback */
    size_t len = tlc_codec_positions(c->codec)->encode(&members, dst, cap);

    c->fallback = !len;
    return len ? len : encode_fallback(c, dst);
}

static size_t encode_positions(const tlc_coding *c, uint8_t *dst)
{
    tlc_members members = all_members(c, fill_masks(c));
    return tlc_codec_positions(c->codec)->encode(&members, dst, (size_t)positions_bound(c->codec, c->unit.n));
}

/* The values are first written after the largest size of the positions, then moved. There are no ranges, because the
 * place of a value depends on all values before it. */
static size_t encode_with_values(const tlc_coding *c, uint8_t *dst)
{
    const tlc_positions *positions = tlc_codec_positions(c->codec);
    const tlc_unit *u = &c->unit;
    uint64_t room = u->quantizer->members_max(u->params, u->n), part[TLC_CHUNK / WORD] = {0}, k = 0;
    size_t most = (size_t)positions_bound(c->codec, u->n);
    tlc_value_writer w = {.u = u, .to = dst + most, .bits = value_bits(c->codec)};
    float values[TLC_CHUNK];

    for (size_t at = 0; at < u->n; at += TLC_CHUNK) {
        tlc_chunk chunk = {.at = at, .values = values, .mask = positions->whole ? c->scratch + at / WORD : part};
        chunk.count = tlc_smaller((size_t)u->n - at, TLC_CHUNK);
        size_t some = encode_members(c, &chunk, room - k);
        tlc_values_write(&w, values, some);
        k += some;
        if (!positions->whole) {
            tlc_members members = {part, NULL, chunk.count, some};
            (void)positions->encode(&members, dst + at / 8, most - at / 8);
        }
    }
    size_t size = (size_t)(tlc_values_end(&w) - (dst + most));
    if (positions->whole) {
        tlc_members members = all_members(c, k);
        size_t len = positions->encode(&members, dst, most);
        memmove(dst + len, dst + most, size);
        return len + size;
    }
    return most + size;
}

static size_t encode(tlc_coding *c, uint8_t *dst)
{
    if (has_signs(c->codec))
        return encode_signed(c, dst);
    return value_bits(c->codec) ? encode_with_values(c, dst) : encode_positions(c, dst);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

enum { FEW = 16 }; /* if fewer than one value in FEW is a member, a loop over the members is faster than vectors */

static tlc_positions_format format_of(const tlc_coding *c)
{
    return (tlc_positions_format){.k = c->unit.k,
                                  .n = c->unit.n,
                                  .has_signs = has_signs(c->codec),
                                  .value_bits = value_bits(c->codec)};
}

static int check(const tlc_coding *c)
{
    tlc_positions_format format = format_of(c);
    tlc_positions_reader reader;

    if (c->fallback)
        return tlc_coder_of_symbols.check(c);
    if (has_signs(c->codec) && c->len >= tlc_coder_of_symbols.bound(c->codec, c->unit.dtype, c->unit.n))
        return 0;
    size_t size = tlc_codec_positions(c->codec)->open(&reader, &format, c->payload, c->len, TLC_CHECK);
    return size && (!format.value_bits || tlc_values_valid(&c->unit, c->payload + size, reader.k));
}

static void decode_masks(const tlc_coding *c, tlc_positions_reader *reader, tlc_value_reader *values, size_t from,
                         size_t to)
{
    const tlc_unit *u = &c->unit;
    tlc_positions_batch batch;
    float buf[TLC_CHUNK];
    size_t have;

    for (size_t at = from, count; at < to; at += count) {
        int sparse = values->count - values->next < (u->n - at) / FEW;
        count = tlc_smaller(to - at, TLC_CHUNK);
        batch.count = (size_t)tlc_ceil_div(count, WORD);
        (void)tlc_codec_positions(c->codec)->read(reader, to, &batch);
        for (size_t w = batch.count; w < TLC_MASK_WORDS; w++)
            batch.mask[w] = 0;
        const void *first = tlc_values_peek(values, batch.mask, buf, &have);
        values->next += tlc_output_members(c->output, u->first + at, count, batch.mask, first, have, sparse);
    }
    reader->place.count = values->next;
}

/* Arithmetic on bits, which compilers make vectors of; a table would be read value by value. */
static void signed_values(const uint8_t *negative, size_t count, float scale, float *value)
{
    const uint32_t bits = tlc_float_bits(scale);

    for (size_t i = 0; i < count; i++)
        value[i] = tlc_bits_float(bits ^ (uint32_t)negative[i] << 31);
}

static void decode_batches(const tlc_coding *c, tlc_positions_reader *reader, tlc_value_reader *values, size_t from,
                           size_t to)
{
    const int is_signed = has_signs(c->codec);
    tlc_positions_batch batch;
    float value[TLC_BATCH];
    tlc_scatter s;

    for (size_t i = 0; i < TLC_BATCH; i++)
        value[i] = c->unit.scalars[0];
    tlc_scatter_begin(&s, c->output, c->unit.first, from, to);
    while (tlc_codec_positions(c->codec)->read(reader, to, &batch)) {
        if (is_signed)
            signed_values(batch.negative, batch.count, c->unit.scalars[0], value);
        if (values->bits)
            tlc_values_read(values, batch.count, value);
        tlc_scatter_batch(&s, batch.index, value, batch.count);
    }
    tlc_scatter_end(&s);
}

static size_t streams(const tlc_coding *c)
{
    return c->fallback ? tlc_coder_of_symbols.streams(c) : 1;
}

static int is_slow_in_parts(const tlc_coding *c)
{
    const tlc_positions *positions = tlc_codec_positions(c->codec);
    tlc_positions_format format = format_of(c);
    tlc_positions_reader reader;

    if (c->fallback || !positions->whole)
        return 0;
    (void)positions->open(&reader, &format, c->payload, c->len, TLC_CHECKED);
    return reader.as_masks;
}

static void skip(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    tlc_positions_format format = format_of(c);
    tlc_positions_reader reader;

    if (c->fallback) {
        tlc_coder_of_symbols.skip(c, place, from, to);
        return;
    }
    format.in_parts = 1;
    (void)tlc_codec_positions(c->codec)->open(&reader, &format, c->payload, c->len, TLC_CHECKED);
    reader.place = place->positions;
    tlc_codec_positions(c->codec)->skip(&reader, to);
    place->positions = reader.place;
}

static void decode(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    tlc_positions_format format = format_of(c);
    tlc_positions_reader reader;

    if (c->fallback) {
        tlc_coder_of_symbols.decode(c, place, from, to);
        return;
    }
    format.in_parts = to - from < c->unit.n;
    size_t size = tlc_codec_positions(c->codec)->open(&reader, &format, c->payload, c->len, TLC_CHECKED);
    tlc_value_reader values = tlc_values_at(&c->unit, c->payload + size, reader.k);
    reader.place = place->positions;
    values.next = reader.place.count;
    if (c->output->mode == TLC_OUTPUT_COUNT)
        *c->output->nonzero += reader.k; /* takes no time for n, which may be a huge number in a bad frame */
    else if (reader.as_masks)
        decode_masks(c, &reader, &values, from, to);
    else
        decode_batches(c, &reader, &values, from, to);
    place->positions = reader.place;
}

const tlc_coder tlc_coder_of_members = {
    .bound = bound,
    .scratch = scratch,
    .encode = encode,
    .check = check,
    .streams = streams,
    .is_slow_in_parts = is_slow_in_parts,
    .skip = skip,
    .decode = decode,
};
