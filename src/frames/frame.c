/* SPDX-License-Identifier: MIT */
#include "frame.h"
#include "../common/bytes.h"
#include "../common/hash.h"
#include "../common/varint.h"

#define FLAG_DTYPE 0x03u
#define FLAG_BLOCKED 0x08u
#define FLAG_RESERVED 0xf0u

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static size_t scalar_count(const tlc_codec *codec, uint64_t n)
{
    return n && !codec->block ? tlc_scalar_count(codec->quantizer->quantize, codec->params) : 0;
}

size_t tlc_frame_header_size(const tlc_codec *codec, size_t n)
{
    return 4 + tlc_varint_size(n) + (codec->block ? tlc_varint_size(codec->block) : 0) + 4 * scalar_count(codec, n);
}

size_t tlc_frame_write(uint8_t *dst, const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n,
                       const float *scalars)
{
    size_t at = 4;

    dst[0] = TLC_FRAME_VERSION;
    dst[1] = (uint8_t)((unsigned)dtype | (checksum ? TLC_FRAME_CHECKSUM : 0) | (codec->block ? FLAG_BLOCKED : 0));
    tlc_codec_ids(codec, 0, dst + 2);
    at += tlc_varint_write(dst + at, n);
    if (codec->block)
        at += tlc_varint_write(dst + at, codec->block);
    for (size_t i = 0; i < scalar_count(codec, n); i++, at += 4)
        tlc_store32(dst + at, tlc_float_bits(scalars[i]));
    return at;
}

void tlc_frame_mark_fallback(uint8_t *dst, const tlc_codec *codec)
{
    tlc_codec_ids(codec, 1, dst + 2);
}

size_t tlc_table_entry_size(const tlc_codec *codec)
{
    return 4 * (size_t)tlc_scalar_count(codec->quantizer->quantize, codec->params) + 4;
}

uint32_t tlc_checksum(const void *bytes, size_t len)
{
    return (uint32_t)tlc_hash(bytes, len, 0);
}

void tlc_frame_seal(uint8_t *frame, size_t len)
{
    tlc_store32(frame + len, tlc_checksum(frame, len));
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

int tlc_scalars_valid(const tlc_codec *codec, const float *scalars)
{
    const tlc_quantizer *quantizer = codec->quantizer->quantize;
    uint32_t sign = quantizer->any_sign ? ~TLC_F32_ABS : 0;

    for (unsigned i = 0; i < tlc_scalar_count(quantizer, codec->params); i++)
        if ((tlc_float_bits(scalars[i]) & ~sign) >= TLC_F32_INF) /* not finite, or with a sign that none has */
            return 0;
    return 1;
}

static tlc_status fail(tlc_frame *f, tlc_frame_fault fault)
{
    static const tlc_status status[] = {
        [TLC_FAULT_SHORT] = TLC_ERR_CORRUPT,     [TLC_FAULT_OTHER] = TLC_ERR_VERSION,
        [TLC_FAULT_CODEC] = TLC_ERR_UNSUPPORTED, [TLC_FAULT_CHECKSUM] = TLC_ERR_CHECKSUM,
        [TLC_FAULT_N] = TLC_ERR_CORRUPT,         [TLC_FAULT_SIZE] = TLC_ERR_SIZE,
        [TLC_FAULT_FLAGS] = TLC_ERR_CORRUPT,     [TLC_FAULT_BLOCK] = TLC_ERR_CORRUPT,
        [TLC_FAULT_SCALARS] = TLC_ERR_CORRUPT,
    };

    f->fault = fault;
    return status[fault];
}

tlc_status tlc_frame_read(tlc_frame *f, const void *src, size_t len, const size_t *n, int check_sum)
{
    const uint8_t *p = src;
    uint64_t block = 0;
    size_t at = 4;

    if (len < TLC_FRAME_MIN || (p[1] & TLC_FRAME_CHECKSUM && len < TLC_FRAME_MIN + TLC_CHECKSUM_SIZE))
        return fail(f, TLC_FAULT_SHORT);
    if (p[0] != TLC_FRAME_VERSION)
        return fail(f, TLC_FAULT_OTHER);
    if (!tlc_codec_from_ids(&f->codec, &f->fallback, p + 2))
        return fail(f, TLC_FAULT_CODEC);
    f->checksum = (p[1] & TLC_FRAME_CHECKSUM) != 0;
    if (f->checksum) {
        len -= TLC_CHECKSUM_SIZE;
        if (check_sum && tlc_load32(p + len) != tlc_checksum(p, len))
            return fail(f, TLC_FAULT_CHECKSUM);
    }
    if (!tlc_varint_read(p, len, &at, &f->n))
        return fail(f, TLC_FAULT_N);
    if (n && f->n != *n)
        return fail(f, TLC_FAULT_SIZE);
    f->dtype = (tlc_dtype)(p[1] & FLAG_DTYPE);
    if (p[1] & FLAG_RESERVED || !tlc_dtype_valid(f->dtype))
        return fail(f, TLC_FAULT_FLAGS);
    if (p[1] & FLAG_BLOCKED &&
        (f->fallback || !tlc_varint_read(p, len, &at, &block) || !block || block > TLC_BLOCK_MAX))
        return fail(f, TLC_FAULT_BLOCK);
    f->codec.block = (size_t)block;
    size_t scalars = scalar_count(&f->codec, f->n);
    if (len - at < 4 * scalars)
        return fail(f, TLC_FAULT_SCALARS);
    for (size_t i = 0; i < TLC_MAX_SCALARS; i++)
        f->scalars[i] = i < scalars ? tlc_bits_float(tlc_load32(p + at + 4 * i)) : 0.0f;
    if (scalars && !tlc_scalars_valid(&f->codec, f->scalars))
        return fail(f, TLC_FAULT_SCALARS);
    at += 4 * scalars;
    f->header_size = at;
    f->payload = p + at;
    f->payload_size = len - at;
    return TLC_OK;
}
