/* SPDX-License-Identifier: MIT */
#include "decoding.h"
#include "../common/structs.h"
#include "../frames/decode.h"
#include "../frames/formats.h"

tlc_status tlc_decoding_begin(tlc_decoding *d, const tlc_decode_options *opt)
{
    memset(&d->options, 0, sizeof d->options);
    d->why = (tlc_text){NULL, 0, 0};
    d->k = tlc_kernels_for(TLC_ISA_AUTO);
    if (!opt)
        return TLC_OK;
    if (!tlc_import(&d->options, sizeof d->options, opt))
        return TLC_ERR_PARAM;
    d->why = tlc_text_in(d->options.message, d->options.message_cap);
    d->k = tlc_kernels_for(d->options.isa);
    if ((unsigned)d->options.isa > TLC_ISA_NEON)
        return tlc_isa_check(d->options.isa, &d->why);
    return tlc_flag_check("from_zero", d->options.from_zero, &d->why);
}

tlc_status tlc_decoding_null(tlc_text *w, const char *name, const char *size, size_t count)
{
    return TLC_FAIL(w, TLC_ERR_PARAM, "%s is NULL, but %s is %zu", name, size, count);
}

tlc_status tlc_decoding_check(tlc_decoding *d, tlc_frame *f, const tlc_message *frame, const void *out,
                              const char *name, size_t n)
{
    tlc_status status;

    if (!frame->data && frame->len)
        return tlc_decoding_null(&d->why, "src", "len", frame->len);
    if (!out && n)
        return tlc_decoding_null(&d->why, name, "n", n);
    if (!d->k)
        return tlc_isa_check(d->options.isa, &d->why);
    status = tlc_frame_read(f, frame->data, frame->len, &n, 1);
    if (!status && !tlc_decode_check(d->k, f))
        status = TLC_ERR_CORRUPT;
    if (status)
        tlc_frame_say_fault(&d->why, f, frame->data, frame->len, &n);
    return status;
}
