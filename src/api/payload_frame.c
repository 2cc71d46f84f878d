/* SPDX-License-Identifier: MIT
 *
 * Frames of payloads that were made elsewhere. They are checked as a decoder does.
 */
#include "../codec/arguments.h"
#include "../common/sizes.h"
#include "../common/structs.h"
#include "../frames/decode.h"
#include "../frames/formats.h"
#include <threelc/frames.h>
#include <threelc/stages.h>

/* What a decoder will know of the codec. A payload that is not smaller than the bytes of the fallback has these. */
static tlc_status read_codec(tlc_frame *f, const char *text, tlc_text *w)
{
    uint8_t ids[2];
    tlc_codec codec;
    tlc_status status = tlc_codec_read(&codec, "codec", text, w);

    if (status)
        return status;
    tlc_codec_ids(&codec, 0, ids);
    (void)tlc_codec_from_ids(&f->codec, &f->fallback, ids);
    f->codec.block = codec.block;
    f->fallback = f->n && !codec.block && tlc_codec_has_fallback(&codec) &&
                  f->payload_size >= tlc_quartic_size((size_t)f->n);
    return TLC_OK;
}

static size_t header_scalars(const tlc_frame *f)
{
    return f->n && !f->codec.block ? tlc_scalar_count(f->codec.quantizer->quantize, f->codec.params) : 0;
}

static tlc_status check(tlc_frame *f, const float *scalars, tlc_text *w)
{
    const size_t n = (size_t)f->n;
    int is_valid = 1;

    if (header_scalars(f)) {
        memcpy(f->scalars, scalars, header_scalars(f) * sizeof *scalars);
        f->fault = TLC_FAULT_SCALARS;
        is_valid = tlc_scalars_valid(&f->codec, f->scalars);
    }
    if (is_valid && tlc_decode_check(tlc_kernels_for(TLC_ISA_AUTO), f))
        return TLC_OK;
    tlc_frame_say_fault(w, f, NULL, 0, &n);
    return TLC_ERR_CORRUPT;
}

tlc_status tlc_compress_payload(const void *payload, size_t len, const float *scalars, size_t n,
                                const tlc_quartic_params *params, void *dst, size_t cap, size_t *written)
{
    tlc_frame f = {.n = n, .payload = payload, .payload_size = len};
    tlc_quartic_params p = {0};
    tlc_status status;

    if (!params || !tlc_import(&p, sizeof p, params))
        return TLC_ERR_PARAM;
    tlc_text w = tlc_text_in(p.message, p.message_cap);
    status = read_codec(&f, p.codec, &w);
    if (!status)
        status = tlc_dtype_check(p.dtype, &w);
    if (!status)
        status = tlc_isa_check(TLC_ISA_AUTO, &w);
    if (status)
        return status;
    if (!dst || !written || (len && !payload) || (header_scalars(&f) && !scalars))
        return TLC_FAIL(&w, TLC_ERR_PARAM, "%s is NULL",
                        len && !payload ? "payload"
                        : !dst          ? "dst"
                        : !written      ? "written"
                                        : "scalars");
    f.dtype = p.dtype;
    f.checksum = p.checksum != 0;
    f.header_size = tlc_frame_header_size(&f.codec, n);
    const uint64_t size = tlc_sum(f.header_size + (f.checksum ? TLC_CHECKSUM_SIZE : 0), len);
    if (cap < size)
        return TLC_FAIL(&w, TLC_ERR_CAPACITY, "cap is %zu bytes, %llu are needed", cap, (unsigned long long)size);
    status = check(&f, scalars, &w);
    if (status)
        return status;
    size_t at = tlc_frame_write(dst, &f.codec, f.dtype, f.checksum, n, f.scalars);
    if (f.fallback)
        tlc_frame_mark_fallback(dst, &f.codec);
    if (len)
        memcpy((uint8_t *)dst + at, payload, len);
    at += len;
    if (f.checksum)
        tlc_frame_seal(dst, at);
    *written = (size_t)size;
    return TLC_OK;
}
