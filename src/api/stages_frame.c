/* SPDX-License-Identifier: MIT
 *
 * Frames of values that the caller quantizes and decodes: the lossless half of a compression, and of its reverse. Each
 * unit comes as quartic bytes, which stay as they are, or are shrunk, or become positions.
 */
#include "../codec/arguments.h"
#include "../frames/bounds.h"
#include "../coding/coder.h"
#include "../frames/frame.h"
#include "../frames/walk.h"
#include "decoding.h"
#include "../common/bytes.h"
#include "../common/structs.h"
#include <threelc/stages.h>

enum { STREAMS = 5, WORD = 64 };

typedef struct quartic_job {
    const tlc_kernels *k;
    tlc_codec codec;
    const float *scale;     /* of each unit */
    const uint8_t *quartic; /* of all units */
    size_t n, units, unit;  /* values; units; values of all units but the last */
    uint64_t *scratch;
} quartic_job;

static void split(quartic_job *j, size_t block)
{
    j->unit = block ? tlc_smaller(block, j->n) : j->n;
    j->units = j->n ? (size_t)tlc_ceil_div(j->n, j->unit) : 0;
}

static tlc_status parse(quartic_job *j, const char *codec, size_t n, tlc_text *w)
{
    tlc_status status = tlc_codec_read(&j->codec, "codec", codec, w);

    if (status)
        return status;
    if (j->codec.quantizer->gives != TLC_KIND_TERNARY)
        return TLC_FAIL(w, TLC_ERR_PARAM, "codec \"%s\" has no 3-value symbols", codec);
    j->n = n;
    split(j, j->codec.block);
    return TLC_OK;
}

static size_t unit_size(const quartic_job *j, size_t i)
{
    return tlc_smaller(j->n - i * j->unit, j->unit);
}

/* Where the bytes of a unit begin. All units but the last have equally many. */
static size_t unit_first(const quartic_job *j, size_t i)
{
    return i * (size_t)tlc_ceil_div(j->unit, STREAMS);
}

static const uint8_t *unit_bytes(const quartic_job *j, size_t i)
{
    return j->quartic + unit_first(j, i);
}

static size_t quartic_size(const quartic_job *j)
{
    return j->units ? unit_first(j, j->units - 1) + tlc_quartic_size(unit_size(j, j->units - 1)) : 0;
}

static int has_positions(const quartic_job *j)
{
    return tlc_codec_positions(&j->codec) != NULL;
}

/* The masks of a unit, then its symbols. */
static uint64_t scratch_size(const quartic_job *j)
{
    return has_positions(j) ? tlc_sum(tlc_unit_scratch(&j->codec, j->unit), j->unit) : 0;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

static tlc_status check(const quartic_job *j, size_t len, tlc_text *w)
{
    tlc_codec plain;

    if (len != quartic_size(j))
        return TLC_FAIL(w, TLC_ERR_SIZE, "len is %zu, but %zu values have %zu quartic bytes", len, j->n,
                        quartic_size(j));
    tlc_codec_fill(&plain, j->codec.quantizer, &tlc_stage_quartic, NULL);
    for (size_t i = 0; i < j->units; i++) {
        if (tlc_float_bits(j->scale[i]) >= TLC_F32_INF) /* or negative */
            return TLC_FAIL(w, TLC_ERR_NONFINITE, "scales[%zu] is %s", i,
                            tlc_finite(j->scale[i]) ? "negative" : tlc_nonfinite_name(j->scale[i]));
        const size_t n = unit_size(j, i);
        const tlc_coding c = {.unit = {.k = j->k, .n = n},
                              .codec = &plain,
                              .payload = unit_bytes(j, i),
                              .len = (size_t)tlc_ceil_div(n, STREAMS)};
        if (!tlc_coder_of_symbols.check(&c))
            return TLC_FAIL(w, TLC_ERR_CORRUPT, "quartic: the bytes of block %zu of %zu are not those of %zu symbols",
                            i, j->units, n);
    }
    return TLC_OK;
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* The positions of the symbols that are not 0. Returns 0 if they are not shorter than the quartic bytes. */
static size_t encode_positions(const quartic_job *j, size_t i, uint8_t *dst)
{
    size_t n = unit_size(j, i), words = (size_t)tlc_ceil_div(n, WORD);
    uint64_t *mask = j->scratch, *negative = mask + words;
    int8_t *q = (int8_t *)(negative + words);

    (void)tlc_quartic_decode(unit_bytes(j, i), tlc_quartic_size(n), q, n);
    const tlc_members members = {mask, negative, n, j->k->symbol_masks(q, n, mask, negative)};
    return tlc_codec_positions(&j->codec)->encode(&members, dst, tlc_quartic_size(n) - 1);
}

/* Writes the payload of a unit and returns its length. */
static size_t encode_unit(const quartic_job *j, size_t i, uint8_t *dst, int *fallback)
{
    const size_t quartic = tlc_quartic_size(unit_size(j, i));
    size_t len = 0;

    *fallback = 0;
    if (j->codec.shrinker) {
        (void)tlc_zerorun_encode(unit_bytes(j, i), quartic, dst, quartic, &len);
        return len;
    }
    if (has_positions(j)) {
        len = encode_positions(j, i, dst);
        *fallback = !len;
    }
    if (len)
        return len;
    memcpy(dst, unit_bytes(j, i), quartic);
    return quartic;
}

/* Writes the table and the payloads of the units. */
static size_t encode_blocks(const quartic_job *j, uint8_t *dst)
{
    const size_t entry = tlc_table_entry_size(&j->codec);
    size_t at = j->units * entry;
    int fallback;

    for (size_t i = 0; i < j->units; i++) {
        const size_t len = encode_unit(j, i, dst + at, &fallback);
        tlc_store32(dst + i * entry, tlc_float_bits(j->scale[i]));
        tlc_store32(dst + i * entry + 4, (uint32_t)len | (fallback ? TLC_BLOCK_FALLBACK : 0));
        at += len;
    }
    return at;
}

static size_t encode(const quartic_job *j, const tlc_quartic_params *p, uint8_t *dst)
{
    size_t at = tlc_frame_write(dst, &j->codec, p->dtype, p->checksum, j->n, j->scale);
    int fallback = 0;

    if (j->codec.block)
        at += encode_blocks(j, dst + at);
    else if (j->n)
        at += encode_unit(j, 0, dst + at, &fallback);
    if (fallback)
        tlc_frame_mark_fallback(dst, &j->codec);
    if (p->checksum) {
        tlc_frame_seal(dst, at);
        at += TLC_CHECKSUM_SIZE;
    }
    return at;
}

/* ---- public ------------------------------------------------------------------------------------------------------ */

size_t tlc_quartic_scratch(const char *codec, size_t n)
{
    quartic_job j;
    uint64_t size = parse(&j, codec, n, NULL) ? 0 : scratch_size(&j);

    return size < SIZE_MAX ? (size_t)size : SIZE_MAX;
}

/* Checks all arguments but the symbols. */
static tlc_status check_arguments(quartic_job *j, const tlc_quartic_params *p, const void *dst, size_t cap,
                                  const size_t *written, tlc_text *w)
{
    const char *missing = !j->quartic && j->n ? "quartic" : !j->scale && j->n ? "scales" : !dst ? "dst" : "written";
    tlc_status status = tlc_dtype_check(p->dtype, w);

    if (status)
        return status;
    if (!dst || !written || (j->n && (!j->quartic || !j->scale)))
        return TLC_FAIL(w, TLC_ERR_PARAM, "%s is NULL", missing);
    if (scratch_size(j) && !p->scratch)
        return TLC_FAIL(w, TLC_ERR_PARAM, "scratch is NULL: tlc_quartic_scratch tells how much is needed");
    return tlc_frame_room(&j->codec, p->dtype, p->checksum, j->n, cap, w);
}

tlc_status tlc_compress_quartic(const void *quartic, size_t len, const float *scales, size_t n,
                                const tlc_quartic_params *params, void *dst, size_t cap, size_t *written)
{
    tlc_quartic_params p = {0};
    quartic_job j;

    if (!params || !tlc_import(&p, sizeof p, params))
        return TLC_ERR_PARAM;
    tlc_text w = tlc_text_in(p.message, p.message_cap);
    tlc_status status = parse(&j, p.codec, n, &w);
    if (status)
        return status;
    p.checksum = p.checksum != 0;
    j.k = tlc_kernels_for(TLC_ISA_AUTO);
    if (!j.k)
        return TLC_ERR_UNSUPPORTED;
    j.scale = scales;
    j.quartic = quartic;
    j.scratch = p.scratch;
    status = check_arguments(&j, &p, dst, cap, written, &w);
    if (!status)
        status = check(&j, len, &w);
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter();
    *written = encode(&j, &p, dst);
    tlc_float_leave(mode);
    return TLC_OK;
}

/* ---- from a frame ------------------------------------------------------------------------------------------------ */

/* All symbols are 0, but those at the positions. */
static void decode_positions(const tlc_coding *c, uint8_t *dst)
{
    const tlc_positions *positions = tlc_codec_positions(c->codec);
    const tlc_positions_format format = {.k = c->unit.k, .n = c->unit.n, .has_signs = 1};
    const tlc_packer *p = tlc_stage_quartic.pack;
    const size_t n = (size_t)c->unit.n, columns = tlc_quartic_size(n);
    size_t stream = 0, first = 0; /* the stream that positions are in, and its first value */
    tlc_positions_reader reader;
    tlc_positions_batch batch;

    memset(dst, p->zero, columns);
    for (size_t i = n; i < STREAMS * columns; i++)
        dst[i % columns] = (uint8_t)(dst[i % columns] - p->place[i / columns]); /* digit 0 */
    (void)positions->open(&reader, &format, c->payload, c->len, TLC_CHECKED);
    while (positions->read(&reader, n, &batch))
        for (size_t i = 0; i < batch.count; i++) {
            while (batch.index[i] - first >= columns) {
                stream++;
                first += columns;
            }
            uint8_t *byte = &dst[batch.index[i] - first];
            *byte = (uint8_t)(batch.negative[i] ? *byte - p->place[stream] : *byte + p->place[stream]);
        }
}

static void decode_unit(const tlc_coding *c, uint8_t *dst)
{
    if (tlc_codec_positions(c->codec) && !c->fallback)
        decode_positions(c, dst);
    else if (c->codec->shrinker)
        tlc_shrunk_expand(c->codec->shrinker->shrink, c->unit.k, c->payload, c->len, dst);
    else
        memcpy(dst, c->payload, c->len);
}

/* Of a frame that was checked. */
static void take_apart(const quartic_job *j, const tlc_frame *f, uint8_t *quartic, float *scales)
{
    tlc_walk w;

    tlc_walk_start(&w, j->k, f, NULL);
    for (size_t i = 0; i < j->units; i++) {
        (void)tlc_walk_next(&w);
        scales[i] = w.coding.unit.scalars[0];
        decode_unit(&w.coding, quartic + unit_first(j, i));
    }
}

tlc_status tlc_decompress_quartic(const void *src, size_t len, size_t n, void *quartic, size_t cap, float *scales,
                                  size_t count, const tlc_decode_options *opt)
{
    quartic_job j = {.n = n};
    tlc_decoding d;
    tlc_frame f;
    tlc_status status = tlc_decoding_begin(&d, opt);

    if (!status)
        status = tlc_decoding_check(&d, &f, &(tlc_message){src, len}, quartic, "quartic", n);
    if (status)
        return status;
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the frame was read */
    if (f.codec.quantizer->gives != TLC_KIND_TERNARY)
        return TLC_FAIL(&d.why, TLC_ERR_UNSUPPORTED, "a frame of codec \"%s\" has no 3-value symbols",
                        f.codec.quantizer->name);
    if (!n)
        return TLC_OK;
    if (!scales)
        return tlc_decoding_null(&d.why, "scales", "n", n);
    split(&j, f.codec.block);
    if (cap < quartic_size(&j))
        return TLC_FAIL(&d.why, TLC_ERR_CAPACITY, "cap is %zu bytes, %zu are needed", cap, quartic_size(&j));
    if (count < j.units)
        return TLC_FAIL(&d.why, TLC_ERR_CAPACITY, "count is %zu, but there are %zu scales", count, j.units);
    j.k = d.k;
    const tlc_float_mode mode = tlc_float_enter();
    take_apart(&j, &f, quartic, scales);
    tlc_float_leave(mode);
    return TLC_OK;
}
