/* SPDX-License-Identifier: MIT
 *
 * 3-value quantization with sparsity multiplication (3LC, section 3.1). The scalar is M = s * max|x|; x becomes 1 above
 * M / 2, -1 below -M / 2, else 0, and decodes to M, -M or 0.
 */
#include "stage.h"

static uint32_t scale(const double *params, tlc_dtype dtype, uint32_t max)
{
    (void)dtype;
    return tlc_float_bits(tlc_bits_float(max) * (float)params[0]);
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    u->k->ternary_encode(c->x, NULL, c->count, u->scalars[0], c->symbols);
    return 0;
}

static const tlc_param params[] = {{
    .key = "s",
    .mantissa = 24,
    .least = 1.0,
    .below = 2.0,
    .fallback = 1.0,
    .range = "1 <= s < 2, default 1",
}};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_SYMBOLS,
    .scalars = 1,
    .feedback = 1,
    .has_zero = 1,
    .scale = scale,
    .encode = encode,
};

const tlc_stage tlc_stage_ternary = {
    .name = "ternary",
    .id = 2,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_TERNARY,
    .params = TLC_IF_BUILT(TLC_WITH_TERNARY, params),
    .param_count = TLC_IS_BUILT(TLC_WITH_TERNARY) ? 1 : 0,
    .quantize = TLC_IF_BUILT(TLC_WITH_TERNARY, &quantizer),
};

const tlc_stage_words tlc_words_ternary = {
    .meaning = TLC_IF_BUILT(TLC_WITH_TERNARY, "3-value quantization with sparsity multiplication"),
    .source = TLC_IF_BUILT(TLC_WITH_TERNARY, "Lim, Andersen, Kaminsky, 3LC, 2018, section 3.1"),
    .params = {TLC_IF_BUILT(TLC_WITH_TERNARY, "sparsity multiplier: a larger one sends fewer, larger values")},
};
