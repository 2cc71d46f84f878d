/* SPDX-License-Identifier: MIT
 *
 * An aggregator of natural frames, as IntML's switches are (Horvath et al., "Natural compression", 2019): it decodes, adds
 * and compresses again, so that one frame leaves for many that arrive.
 */
#include "../coding/frame.h"
#include "../coding/pipeline.h"
#include "natural.h"
#include <threelc/stages.h>

/* Reads a frame that is to go with the first one, if that is not NULL. */
static tlc_status read_frame(tlc_frame *f, const void *src, size_t len, const tlc_frame *first)
{
    size_t n = first ? (size_t)first->n : 0;
    tlc_status status;

    if (!src && len)
        return TLC_ERR_PARAM;
    status = tlc_frame_read(f, src, len, first ? &n : NULL);
    if (status)
        return status;
    if (!tlc_pipeline_check(tlc_kernels_for(TLC_ISA_AUTO), f))
        return TLC_ERR_CORRUPT;
    if (f->codec.value != &tlc_stage_natural || f->codec.block)
        return TLC_ERR_UNSUPPORTED;
    return first && f->codec.value->form(&f->codec) != f->codec.value->form(&first->codec) ? TLC_ERR_PARAM : TLC_OK;
}

typedef struct aggregation {
    const void *const *frames;
    const size_t *lens;
    size_t count;
    tlc_unit unit; /* of the result */
} aggregation;

/* The sums of a piece; each frame was checked, so only the place of its codes is wanted. */
static void sum_piece(const aggregation *a, size_t at, size_t count, float *sum)
{
    const tlc_pieces *pieces = tlc_natural_pieces(a->unit.codec);
    size_t payload = (size_t)tlc_codec_coder(a->unit.codec)->coder->bound(a->unit.codec, a->unit.dtype, a->unit.n);
    float values[TLC_PIECE];

    memset(sum, 0, count * sizeof *sum);
    for (size_t i = 0; i < a->count; i++) {
        const uint8_t *src = a->frames[i];
        size_t end = a->lens[i] - (src[1] & TLC_FRAME_CHECKSUM ? TLC_CHECKSUM_SIZE : 0);
        pieces->decode(&a->unit, src + end - payload + TLC_NATURAL_HEAD, at, count, values);
        a->unit.k->values_add(values, count, 1.0f, 0, sum);
    }
}

static size_t aggregate(aggregation *a, uint8_t *payload)
{
    const tlc_pieces *pieces = tlc_natural_pieces(a->unit.codec);
    uint32_t words[TLC_PIECE];
    float sum[TLC_PIECE];
    uint64_t clipped = 0;

    for (size_t at = 0, count; at < a->unit.n; at += count) {
        count = a->unit.n - at < TLC_PIECE ? (size_t)a->unit.n - at : TLC_PIECE;
        sum_piece(a, at, count, sum);
        tlc_unit_words(&a->unit, at, count, words);
        clipped += pieces->encode(&a->unit, sum, words, at, count, payload + TLC_NATURAL_HEAD);
    }
    return tlc_stage_natural.coder->finish(&a->unit, payload, clipped);
}

tlc_status tlc_natural_aggregate(const void *const *frames, const size_t *lens, size_t count, uint64_t seed,
                                 uint64_t step, void *dst, size_t cap, size_t *written)
{
    tlc_frame first, other;
    tlc_status status;
    size_t bound, at;

    if (!frames || !lens || !count || !dst || !written)
        return TLC_ERR_PARAM;
    status = read_frame(&first, frames[0], lens[0], NULL);
    for (size_t i = 1; !status && i < count; i++)
        status = read_frame(&other, frames[i], lens[i], &first);
    if (!status)
        status = tlc_codec_frame_bound(&first.codec, first.dtype, first.checksum, (size_t)first.n, &bound);
    if (status)
        return status;
    if (cap < bound)
        return TLC_ERR_CAPACITY;
    tlc_work work = {.seed = seed, .step = step};
    aggregation a = {frames, lens, count, {.k = tlc_kernels_for(TLC_ISA_AUTO), .codec = &first.codec, .n = first.n,
                                           .dtype = first.dtype, .work = &work}};
    tlc_float_mode mode = tlc_float_enter();
    at = tlc_frame_write(dst, &first.codec, first.dtype, first.checksum, (size_t)first.n, NULL);
    if (first.n)
        at += aggregate(&a, (uint8_t *)dst + at);
    tlc_float_leave(mode);
    if (first.checksum) {
        tlc_frame_seal(dst, at);
        at += TLC_CHECKSUM_SIZE;
    }
    *written = at;
    return TLC_OK;
}
