/* SPDX-License-Identifier: MIT
 *
 * What is wrong with a frame, in words.
 */
#include "../codec/arguments.h"
#include "../frames/decode.h"
#include "../common/sizes.h"
#include "../frames/formats.h"

/* Of the payload, or of a block's. */
static void say_unit(tlc_text *w, const tlc_frame *f)
{
    char codec[TLC_CODEC_TEXT];
    unsigned long long n = f->n;

    tlc_float_mode mode = tlc_float_enter(); /* parameters are doubles */
    tlc_codec_describe(&f->codec, codec);
    tlc_float_leave(mode);
    if (f->codec.block) {
        const unsigned long long blocks = tlc_ceil_div(f->n, f->codec.block);
        n = f->n - f->fault_unit * f->codec.block;
        n = n < f->codec.block ? n : f->codec.block;
        tlc_text_format(w, "block %llu of %llu", (unsigned long long)f->fault_unit, blocks);
    } else
        tlc_text_format(w, "the payload of %zu bytes from byte %zu on", f->payload_size, f->header_size);
    tlc_text_format(w, " is not what \"%s\" makes of %llu values; the frame was altered or cut", codec, n);
}

static void say_blocks(tlc_text *w, const tlc_frame *f)
{
    const unsigned long long blocks = tlc_ceil_div(f->n, f->codec.block);

    if (f->fault == TLC_FAULT_TABLE)
        tlc_text_format(w, "the table of %llu blocks needs %zu bytes each, but %zu bytes follow the header", blocks,
                        tlc_table_entry_size(&f->codec), f->payload_size);
    else
        tlc_text_format(w, "the payloads of the %llu blocks do not end where the frame of %zu bytes does", blocks,
                        f->header_size + f->payload_size + (f->checksum ? TLC_CHECKSUM_SIZE : 0));
}

void tlc_frame_say_fault(tlc_text *w, const tlc_frame *f, const void *src, size_t len, const size_t *n)
{
    const uint8_t *p = src;

    switch (f->fault) {
    case TLC_FAULT_SHORT:
    case TLC_FAULT_OTHER: tlc_format_say(w, TLC_FORMAT_FRAME, src, len); break;
    case TLC_FAULT_CODEC:
        tlc_text_format(w, "bytes 2 and 3, the codec of the frame, are %d and %d: this library knows no such codec",
                        p[2], p[3]);
        break;
    case TLC_FAULT_BUILD:
        tlc_text_format(w, "the codec of the frame needs %s, which this build of the library lacks",
                        tlc_codec_lacks(&f->codec)->name);
        break;
    case TLC_FAULT_CHECKSUM: tlc_text_say(w, "the checksum of the frame does not match: it was altered or cut"); break;
    case TLC_FAULT_N: tlc_text_say(w, "byte 4 and those after it do not hold a number of values"); break;
    case TLC_FAULT_SIZE:
        tlc_text_format(w, "the frame has %llu values, the caller has %zu", (unsigned long long)f->n, n ? *n : 0);
        break;
    case TLC_FAULT_FLAGS: tlc_text_format(w, "byte 1, the flags of the frame, is %d, which no frame has", p[1]); break;
    case TLC_FAULT_BLOCK: tlc_text_say(w, "the number of values in a block is invalid: it is 1 to 268435456"); break;
    case TLC_FAULT_SCALARS: tlc_text_say(w, "the scalars in the header are cut, not finite or negative"); break;
    case TLC_FAULT_TRAILING:
        tlc_text_format(w, "the frame has no values, but %zu bytes follow its header", f->payload_size);
        break;
    case TLC_FAULT_UNIT: say_unit(w, f); break;
    case TLC_FAULT_TABLE:
    case TLC_FAULT_LENGTHS: say_blocks(w, f); break;
    }
}

tlc_status tlc_frame_explain(const void *src, size_t len, tlc_text *w)
{
    tlc_frame f;
    tlc_status status = tlc_isa_check(TLC_ISA_AUTO, w);

    if (status)
        return status;
    status = tlc_frame_read(&f, src, len, NULL, 1);
    if (!status && !tlc_decode_check(tlc_kernels_for(TLC_ISA_AUTO), &f))
        status = TLC_ERR_CORRUPT;
    if (status)
        tlc_frame_say_fault(w, &f, src, len, NULL);
    return status;
}
