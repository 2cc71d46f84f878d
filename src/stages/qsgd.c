/* SPDX-License-Identifier: MIT
 *
 * Unbiased stochastic quantization to uniform levels of x / max|x| (QSGD, Alistarh et al., 2017, with the maximum norm,
 * as DCD-PSGD and ECD-PSGD use it: Tang et al., 2018).
 * Scalar: max. Payload with 8 bits: n bytes, q in two's complement, a value decodes to max * (q / 127). With 4 bits:
 * ceil(n / 2) bytes, even index in the low half, max * (q / 7); the half beside an odd last one is 0.
 */
#include "levels.h"

enum { BITS };
static const char *const bits_words[] = {"8", "4", NULL};

static int in_bytes(const tlc_codec *codec)
{
    return codec->params[BITS] < 1;
}

static uint64_t positions(const tlc_codec *codec, uint64_t n)
{
    return in_bytes(codec) ? n : tlc_ceil_div(n, 2);
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return positions(codec, n);
}

/* ---- two a byte -------------------------------------------------------------------------------------------------- */

static uint64_t encode(const tlc_unit *u, const float *x, const uint32_t *words, size_t at, size_t count, uint8_t *codes)
{
    int8_t q[TLC_PIECE];

    tlc_levels_of(u, x, words, count, TLC_LEVELS_4, q);
    u->k->nibbles_pack(q, count, codes + at / 2);
    return 0;
}

static void decode(const tlc_unit *u, const uint8_t *codes, size_t at, size_t count, float *out)
{
    int8_t q[TLC_PIECE];

    u->k->nibbles_unpack(codes + at / 2, count, q);
    u->k->levels_decode(q, count, u->scalars[0], TLC_LEVELS_4, out);
}

static const tlc_pieces nibbles = {2, encode, decode};

static int nibbles_check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    unsigned bad = 0;

    if (len != tlc_ceil_div(u->n, 2))
        return 0;
    for (size_t i = 0; i < len; i++)
        bad |= (src[i] & 0x0f) == 0x08 || (src[i] & 0xf0) == 0x80; /* -8 is no level */
    return !bad && (u->n % 2 == 0 || src[len - 1] < 0x10);
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

static const tlc_pieces *pieces(const tlc_unit *u)
{
    return in_bytes(u->codec) ? &tlc_level_bytes : &nibbles;
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    return tlc_pieces_forward(pieces(u), 1, 1, u, from, to, dst);
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    return in_bytes(u->codec) ? tlc_level_bytes_check(u, src, len) : nibbles_check(u, src, len);
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    tlc_pieces_backward(pieces(u), 1, u, from, to, src);
}

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    (void)len;
    return tlc_pieces_nonzero(pieces(u), u, src);
}

static unsigned form(const tlc_codec *codec)
{
    return !in_bytes(codec);
}

static int from_form(tlc_codec *codec, unsigned byte)
{
    codec->params[BITS] = byte;
    return byte <= 1;
}

static const tlc_param params[] = {{
    .key = "bits",
    .words = bits_words,
    .decoding = 1,
    .range = "8 or 4, default 8",
    .meaning = "255 or 15 levels",
}};

static const tlc_value_ops value_ops = {.scalars = 1, .has_zero = 1, .prepare = tlc_levels_prepare};

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = positions,
    .width = tlc_layout_bytes,
    .forward = forward,
    .check = check,
    .backward = backward,
    .nonzero = nonzero,
};

const tlc_stage tlc_stage_qsgd = {
    .name = "qsgd",
    .id = 6,
    .in = TLC_KIND_FLOATS,
    .out = TLC_KIND_BYTES,
    .params = params,
    .param_count = 1,
    .value = &value_ops,
    .coder = &coder_ops,
    .form = form,
    .from_form = from_form,
    .meaning = "uniform levels of x / max|x|, rounded at random without bias",
    .source = "Alistarh et al., QSGD, 2017, with the maximum norm, as in Tang et al., DCD-PSGD and ECD-PSGD, 2018",
};
