/* SPDX-License-Identifier: MIT
 *
 * threelc/stages.h: packers and the shrinker, over the caller's arrays.
 */
#include "../codec/codec.h"
#include "../coding/coder.h"
#include "../common/sizes.h"
#include "../common/structs.h"
#include "../values/symbols.h"
#include <threelc/stages.h>

/* ---- quartic ----------------------------------------------------------------------------------------------------- */

enum { STREAMS = 5 };

/* How many bytes have five symbols and no padding. */
static size_t full_bytes(size_t n)
{
    size_t len = tlc_quartic_size(n), padding = STREAMS * len - n;
    return padding < len ? len - padding : 0;
}

size_t tlc_quartic_size(size_t n)
{
    return (size_t)tlc_ceil_div(n, STREAMS);
}

tlc_status tlc_quartic_encode(const int8_t *q, size_t n, void *dst, size_t cap, size_t *written)
{
    size_t len = tlc_quartic_size(n), full = full_bytes(n);
    const tlc_kernels *kernels = tlc_stage_kernels(&tlc_stage_quartic);
    const int8_t *stream[STREAMS];
    uint8_t *out = dst;

    if (!written || (n && (!q || !dst)))
        return TLC_ERR_PARAM;
    if (cap < len)
        return TLC_ERR_CAPACITY;
    if (!tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    if (!kernels)
        return TLC_ERR_UNSUPPORTED;
    for (size_t k = 0; full && k < STREAMS; k++)
        stream[k] = q + k * len;
    if (full)
        kernels->quartic_encode(stream, full, out);
    for (size_t i = full; i < len; i++) {
        unsigned byte = 0;
        for (size_t k = 0; k < STREAMS; k++)
            byte = byte * 3 + (k * len + i < n ? (unsigned)(q[k * len + i] + 1) : 0);
        out[i] = (uint8_t)byte;
    }
    *written = len;
    return TLC_OK;
}

/* Is it a payload of ternary+quartic? */
static int quartic_valid(const tlc_kernels *k, const void *src, size_t len, size_t n)
{
    tlc_codec codec;

    tlc_codec_fill(&codec, &tlc_stage_ternary, &tlc_stage_quartic, NULL);
    const tlc_coding c = {.unit = {.k = k, .n = n}, .codec = &codec, .payload = src, .len = len};
    return tlc_coder_of_symbols.check(&c);
}

tlc_status tlc_quartic_decode(const void *src, size_t len, int8_t *q, size_t n)
{
    const tlc_kernels *k = tlc_stage_kernels(&tlc_stage_quartic);
    int8_t *stream[STREAMS], last[STREAMS];
    size_t full = full_bytes(n);

    if ((len && !src) || (n && !q))
        return TLC_ERR_PARAM;
    if (len != tlc_quartic_size(n))
        return TLC_ERR_SIZE;
    if (!k)
        return TLC_ERR_UNSUPPORTED;
    if (!len)
        return TLC_OK;
    if (!quartic_valid(k, src, len, n))
        return TLC_ERR_CORRUPT;
    if (full) {
        for (size_t i = 0; i < STREAMS; i++)
            stream[i] = q + i * len;
        k->quartic_decode(src, full, stream);
    }
    for (size_t i = 0; i < STREAMS; i++)
        stream[i] = &last[i];
    for (size_t at = full; at < len; at++) {
        k->quartic_decode((const uint8_t *)src + at, 1, stream);
        for (size_t i = 0; i < STREAMS && i * len + at < n; i++)
            q[i * len + at] = last[i];
    }
    return TLC_OK;
}

/* ---- zero-run ---------------------------------------------------------------------------------------------------- */

tlc_status tlc_zerorun_encode(const void *src, size_t len, void *dst, size_t cap, size_t *written)
{
    const tlc_kernels *k = tlc_stage_kernels(&tlc_stage_zerorun);
    size_t run = 0;

    if (!written || (len && (!src || !dst)))
        return TLC_ERR_PARAM;
    if (cap < len)
        return TLC_ERR_CAPACITY;
    if (!k)
        return TLC_ERR_UNSUPPORTED;
    if (k->bytes_max(src, len) > TLC_QUARTIC_MAX)
        return TLC_ERR_PARAM;
    *written = 0;
    if (len) {
        *written = k->zerorun_encode(&run, src, len, dst);
        *written += tlc_zerorun_flush(run, (uint8_t *)dst + *written);
    }
    return TLC_OK;
}

uint64_t tlc_zerorun_decoded_size(const void *src, size_t len)
{
    const tlc_kernels *k = tlc_stage_kernels(&tlc_stage_zerorun);

    return src && k ? k->zerorun_size(src, len) : 0;
}

tlc_status tlc_zerorun_decode(const void *src, size_t len, void *dst, size_t cap, size_t *written)
{
    const tlc_kernels *k = tlc_stage_kernels(&tlc_stage_zerorun);
    uint64_t size = tlc_zerorun_decoded_size(src, len);

    if (!written || (len && !src) || (size && cap && !dst))
        return TLC_ERR_PARAM;
    if (size > cap)
        return TLC_ERR_CAPACITY;
    if (!k)
        return TLC_ERR_UNSUPPORTED;
    if (len)
        tlc_shrunk_expand(tlc_stage_zerorun.shrink, k, src, len, dst);
    *written = (size_t)size;
    return TLC_OK;
}

/* ---- golomb ------------------------------------------------------------------------------------------------------ */

enum { WORD = 64 };

size_t tlc_golomb_size(size_t n, size_t k, tlc_golomb_signs signs)
{
    tlc_float_mode mode = tlc_float_enter();
    uint64_t size = tlc_golomb_bound(n, k < n ? k : n, signs != TLC_GOLOMB_UNSIGNED);

    tlc_float_leave(mode);
    return size < SIZE_MAX ? (size_t)size : SIZE_MAX;
}

static int signs_valid(tlc_golomb_signs signs)
{
    return signs == TLC_GOLOMB_UNSIGNED || signs == TLC_GOLOMB_SIGNED;
}

tlc_status tlc_golomb_encode(const int8_t *q, size_t n, const tlc_golomb_params *params, void *dst, size_t cap,
                             size_t *written)
{
    const tlc_kernels *kernels = tlc_stage_kernels(&tlc_stage_golomb);
    tlc_golomb_params p = {0};

    if ((params && !tlc_import(&p, sizeof p, params)) || !signs_valid(p.signs) || (n && (!q || !p.scratch)) || !dst ||
        !written || !tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    if (!kernels)
        return TLC_ERR_UNSUPPORTED;
    uint64_t *minus = p.scratch ? p.scratch + tlc_ceil_div(n, WORD) : NULL, any_minus = 0;
    uint64_t k = kernels->symbol_masks(q, n, p.scratch, minus);
    for (size_t i = 0; p.signs == TLC_GOLOMB_UNSIGNED && i * WORD < n; i++)
        any_minus |= minus[i];
    if (any_minus)
        return TLC_ERR_PARAM;
    size_t len = 0;
    tlc_float_mode mode = tlc_float_enter();
    /* The length is computed first, because a writer without enough room has changed dst already. */
    if (cap >= tlc_golomb_bound(n, k, (int)p.signs) || cap >= tlc_golomb_length(p.scratch, n, k, (int)p.signs))
        len = tlc_golomb_write(p.scratch, p.signs ? minus : NULL, n, k, dst, cap);
    tlc_float_leave(mode);
    if (!len)
        return TLC_ERR_CAPACITY;
    *written = len;
    return TLC_OK;
}

tlc_status tlc_golomb_decode(const void *src, size_t len, tlc_golomb_signs signs, int8_t *q, size_t n)
{
    const tlc_positions_format format = {.k = tlc_stage_kernels(&tlc_stage_golomb),
                                         .n = n,
                                         .has_signs = signs == TLC_GOLOMB_SIGNED};
    tlc_positions_reader reader;
    tlc_positions_batch batch;

    if ((len && !src) || (n && !q) || !signs_valid(signs))
        return TLC_ERR_PARAM;
    if (!format.k)
        return TLC_ERR_UNSUPPORTED;
    if (!tlc_positions_golomb.open(&reader, &format, src, len, TLC_CHECK))
        return TLC_ERR_CORRUPT;
    if (n)
        memset(q, 0, n);
    (void)tlc_positions_golomb.open(&reader, &format, src, len, TLC_CHECKED);
    while (tlc_positions_golomb.read(&reader, n, &batch))
        for (size_t i = 0; i < batch.count; i++)
            q[batch.index[i]] = signs && batch.negative[i] ? -1 : 1;
    return TLC_OK;
}
