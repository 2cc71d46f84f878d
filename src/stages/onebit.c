/* SPDX-License-Identifier: MIT
 *
 * One bit a value, x >= 0 or not, each side decoding to its mean, which minimises the squared error: 3LC's comparison
 * "MQE 1-bit" (section 5.1; 1-bit SGD, Seide et al., 2014).
 * Scalars: the mean of x >= 0 (-0 is there), the mean of x < 0; 0 for a side without values.
 * Payload: ceil(n / 8) bytes, bit i % 8 of byte i / 8; bits beyond n are 0.
 */
#include "alone.h"
#include "means.h"
#include "pieces.h"
#include <threelc/stages.h>

static uint64_t positions(const tlc_codec *codec, uint64_t n)
{
    (void)codec;
    return tlc_ceil_div(n, 8);
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return positions(codec, n);
}

/* Sums of the two sides come with the maximum. */
static uint32_t measure(tlc_unit *u)
{
    double sums[2], total[2] = {0, 0};
    float converted[TLC_CHUNK];
    uint64_t count[2] = {0, 0};
    uint32_t max = 0, upper;

    for (size_t at = 0, n; at < u->n; at += n) {
        size_t index = u->first + at;
        n = u->n - at < TLC_CHUNK ? (size_t)(u->n - at) : TLC_CHUNK;
        uint32_t m = u->k->side_sums(tlc_input_floats(&u->input, index, n, converted),
                                     u->input.residual ? u->input.residual + index : NULL, n, sums, &upper);
        max = m > max ? m : max;
        total[0] += sums[0];
        total[1] += sums[1];
        count[0] += upper;
        count[1] += n - upper;
    }
    for (int side = 0; side < 2; side++)
        u->scalars[side] = tlc_mean(total[side], count[side]);
    return max;
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    float converted[TLC_PIECE];
    size_t at = from * 8, end = to * 8 < u->n ? to * 8 : (size_t)u->n;
    int whole = !u->input.grad || tlc_is_floats(u->input.dtype, u->input.grad);

    for (size_t count; at < end; at += count, dst += count / 8) {
        size_t index = u->first + at;
        count = whole || end - at < TLC_PIECE ? end - at : TLC_PIECE;
        u->k->onebit_encode(tlc_input_floats(&u->input, index, count, converted),
                            u->input.residual ? u->input.residual + index : NULL, count, u->scalars, dst);
    }
    return 0;
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    return len == tlc_ceil_div(u->n, 8) && tlc_bits_padding(src, u->n);
}

static void decode(const tlc_unit *u, const uint8_t *codes, size_t at, size_t count, float *out)
{
    u->k->onebit_decode(codes + at / 8, count, u->scalars, out);
}

static const tlc_pieces pieces = {.group = 8, .decode = decode}; /* forward is its own */

/* weight * mean is rounded once for each side, as it would be for each value. */
static void add(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    float w[2] = {u->sink->weight * u->scalars[0], u->sink->weight * u->scalars[1]};
    size_t at = from * 8, end = to * 8 < u->n ? to * 8 : (size_t)u->n;

    u->k->onebit_add(src, end - at, w, (float *)u->sink->out + u->first + at);
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    if (u->sink->mode == TLC_SINK_ADD)
        add(u, from, to, src);
    else
        tlc_pieces_backward(&pieces, 1, u, from, to, src);
}

static const tlc_value_ops value_ops = {.scalars = 2, .any_sign = 1, .feedback = 1, .measure = measure};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = positions,
    .width = tlc_layout_bytes,
    .forward = forward,
    .check = check,
    .backward = backward,
};

const tlc_stage tlc_stage_onebit = {
    .name = "onebit",
    .id = 7,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .value = &value_ops,
    .coder = &coder_ops,
    .meaning = "x >= 0 or not; each side decodes to its mean",
    .source = "Seide, Fu, Droppo, Li, Yu, 1-bit SGD, 2014; Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (MQE 1-bit)",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

tlc_status tlc_onebit_encode(const float *x, size_t n, void *bits, float *residual, float mean[2])
{
    tlc_alone a;

    if ((n && !bits) || !mean)
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = tlc_alone_forward(&a, &tlc_stage_onebit, NULL, x, n, 0, 0, residual);
    if (!status)
        (void)tlc_alone_payload(&a, bits);
    for (int side = 0; !status && side < 2; side++)
        mean[side] = a.unit.scalars[side];
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_onebit_decode(const void *bits, size_t n, const float mean[2], float *out)
{
    if ((n && (!bits || !out)) || !mean || !tlc_finite(mean[0]) || !tlc_finite(mean[1]))
        return TLC_ERR_PARAM;
    if (!tlc_bits_padding(bits, n))
        return TLC_ERR_CORRUPT;
    tlc_kernels_for(TLC_ISA_AUTO)->onebit_decode(bits, n, mean, out);
    return TLC_OK;
}
