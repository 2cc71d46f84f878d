/* SPDX-License-Identifier: MIT
 *
 * The floats themselves, in the dtype of the gradients, little-endian. A position is a value. Without error feedback any
 * bits are sent as they are. With it, x = residual + gradient is sent narrowed to the dtype and the residual keeps what
 * the narrowing lost; then x must be finite, and narrow to a finite value.
 */
#include "stage.h"

static tlc_status check_max(const tlc_codec *codec, tlc_dtype dtype, uint32_t max)
{
    static const uint32_t overflow[] = {
        [TLC_F32] = TLC_F32_INF,
        [TLC_F16] = 0x477ff000, /* 65520, halfway from the largest f16 to 2^16 */
        [TLC_BF16] = 0x7f7f8000,
    };
    (void)codec;
    return max < overflow[dtype] ? TLC_OK : TLC_ERR_NONFINITE;
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)codec;
    return tlc_product(n, tlc_dtype_size(dtype));
}

static size_t width(const tlc_codec *codec, tlc_dtype dtype)
{
    (void)codec;
    return tlc_dtype_size(dtype);
}

/* What is left after a value has been narrowed stays in the residual. */
static void forward_feedback(const tlc_unit *u, size_t at, size_t count, uint8_t *dst)
{
    float wanted[TLC_PIECE], sent[TLC_PIECE];
    size_t size = tlc_dtype_size(u->dtype);

    for (size_t part; count; count -= part, at += part, dst += part * size) {
        uint8_t narrow[TLC_PIECE * sizeof(float)];

        part = count < TLC_PIECE ? count : TLC_PIECE;
        tlc_input_wanted(&u->input, at, part, wanted);
        tlc_narrow(u->k, wanted, part, u->dtype, narrow);
        tlc_widen(u->k, u->dtype, narrow, part, sent);
        tlc_input_settle(&u->input, at, part, wanted, sent);
        tlc_copy_le(dst, narrow, part, size);
    }
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    size_t size = tlc_dtype_size(u->dtype), at = u->first + from;

    if (u->input.residual)
        forward_feedback(u, at, to - from, dst);
    else
        tlc_copy_le(dst, u->input.grad + at * size, to - from, size);
    return 0;
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    size_t size = tlc_dtype_size(u->dtype);

    (void)src;
    return len % size == 0 && len / size == u->n;
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    const tlc_sink *s = u->sink;
    size_t size = tlc_dtype_size(u->dtype);

    if (s->mode == TLC_SINK_WRITE && s->dtype == u->dtype) {
        tlc_copy_le((uint8_t *)s->out + (u->first + from) * size, src, to - from, size);
        return;
    }
    for (size_t part; from < to; from += part, src += part * size) {
        uint8_t host[TLC_PIECE * sizeof(float)];
        float values[TLC_PIECE];

        part = to - from < TLC_PIECE ? to - from : TLC_PIECE;
        tlc_copy_le(host, src, part, size);
        tlc_widen(u->k, u->dtype, host, part, values);
        tlc_sink_floats(u, from, part, values);
    }
}

static const tlc_value_ops value_ops = {.exact = 1, .check = check_max};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = tlc_layout_values,
    .width = width,
    .forward = forward,
    .check = check,
    .backward = backward,
};

const tlc_stage tlc_stage_raw = {
    .name = "raw",
    .id = 1,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .value = &value_ops,
    .coder = &coder_ops,
    .meaning = "the floats themselves, in their dtype, bit for bit",
};
