/* SPDX-License-Identifier: MIT
 *
 * Unbiased stochastic quantization to uniform levels of x / max|x| (QSGD, Alistarh et al., 2017, with the maximum norm,
 * as DCD-PSGD and ECD-PSGD use it: Tang et al., 2018).
 * Scalar: max. 8 bits: a code is a byte, q in two's complement; it decodes to max * (q / 127). 4 bits: half a byte, the
 * even index in the low half; it decodes to max * (q / 7).
 */
#include "../values/levels.h"
#include "stage.h"

enum { BITS };
static const char *const bits_words[] = {"8", "4", NULL};

static int in_bytes(const double *params)
{
    return params[BITS] < 1;
}

static tlc_layout layout(const double *params, tlc_dtype dtype)
{
    (void)dtype;
    return (tlc_layout){.bits = {in_bytes(params) ? 8 : 4}};
}

static float levels(const tlc_unit *u)
{
    return in_bytes(u->params) ? 127.0f : 7.0f;
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    uint32_t words[TLC_CHUNK];
    int8_t q[TLC_CHUNK], *to = in_bytes(u->params) ? (int8_t *)c->codes[0] : q;

    tlc_unit_words(u, c->at, c->count, words);
    tlc_levels_of(u->k, c->x, words, c->count, u->scalars[0], levels(u), to);
    if (to == q)
        u->k->nibbles_pack(q, c->count, c->codes[0]);
    return 0;
}

static void decode(const tlc_unit *u, const uint8_t *const codes[2], size_t count, float *out)
{
    int8_t unpacked[TLC_CHUNK];
    const int8_t *q = (const int8_t *)codes[0];

    if (!in_bytes(u->params)) {
        u->k->nibbles_unpack(codes[0], count, unpacked);
        q = unpacked;
    }
    u->k->levels_decode(q, count, u->scalars[0], levels(u), out);
}

/* -128 and -8 are not levels. */
static int valid(const tlc_unit *u, const uint8_t *const codes[2])
{
    const size_t len = (size_t)(u->n / 2 + u->n % 2);
    const uint8_t *pairs = codes[0];
    uint8_t bad = 0;

    if (in_bytes(u->params))
        return tlc_levels_valid(u->k, codes[0], (size_t)u->n);
    for (size_t i = 0; i < len; i++)
        bad = (uint8_t)(bad | ((pairs[i] & 0x0f) == 0x08) | ((pairs[i] & 0xf0) == 0x80));
    return !bad;
}

static const tlc_param params[] = {{
    .key = "bits",
    .words = bits_words,
    .wire_bits = 1,
    .range = "8 or 4, default 8",
}};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_CODES,
    .scalars = 1,
    .has_zero = 1,
    .unbiased = 1,
    .layout = layout,
    .encode = encode,
    .decode = decode,
    .valid = valid,
};

const tlc_stage tlc_stage_qsgd = {
    .name = "qsgd",
    .id = 6,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .params = TLC_IF_BUILT(TLC_WITH_QSGD, params),
    .param_count = TLC_IS_BUILT(TLC_WITH_QSGD) ? 1 : 0,
    .quantize = TLC_IF_BUILT(TLC_WITH_QSGD, &quantizer),
};

const tlc_stage_words tlc_words_qsgd = {
    .meaning = TLC_IF_BUILT(TLC_WITH_QSGD, "uniform levels of x / max|x|, rounded at random without bias"),
    .source = TLC_IF_BUILT(
        TLC_WITH_QSGD,
        "Alistarh et al., QSGD, 2017, with the maximum norm, as in Tang et al., DCD-PSGD and ECD-PSGD, 2018"),
    .params = {TLC_IF_BUILT(TLC_WITH_QSGD, "255 or 15 levels")},
};
