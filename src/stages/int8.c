/* SPDX-License-Identifier: MIT
 *
 * 255 levels of x / max|x|, rounded to the nearest: 3LC's comparison "8-bit int" (section 5.1).
 * Scalar: max. Payload: n bytes, q in two's complement; a value decodes to max * (q / 127).
 */
#include "levels.h"

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)codec;
    (void)dtype;
    return n;
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    return tlc_pieces_forward(&tlc_level_bytes, 1, 0, u, from, to, dst);
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    tlc_pieces_backward(&tlc_level_bytes, 1, u, from, to, src);
}

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    (void)len;
    return tlc_pieces_nonzero(&tlc_level_bytes, u, src);
}

static const tlc_value_ops value_ops = {.scalars = 1, .has_zero = 1, .prepare = tlc_levels_prepare};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = tlc_layout_values,
    .width = tlc_layout_bytes,
    .forward = forward,
    .check = tlc_level_bytes_check,
    .backward = backward,
    .nonzero = nonzero,
};

const tlc_stage tlc_stage_int8 = {
    .name = "int8",
    .id = 5,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .value = &value_ops,
    .coder = &coder_ops,
    .meaning = "255 levels of x / max|x|, to the nearest",
    .source = "Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (8-bit int)",
};
