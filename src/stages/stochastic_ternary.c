/* SPDX-License-Identifier: MIT
 *
 * Stochastic 3-value quantization: sign(x) with probability |x| / max, else 0, without bias. 3LC's comparison (section
 * 5.1), which is TernGrad without clipping. The scalar is max|x|; it decodes as ternary does.
 */
#include "stage.h"

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    uint32_t words[TLC_CHUNK];

    tlc_unit_words(u, c->at, c->count, words);
    u->k->stochastic_encode(c->x, words, c->count, u->scalars[0], c->symbols);
    return 0;
}

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_SYMBOLS,
    .scalars = 1,
    .has_zero = 1,
    .unbiased = 1,
    .encode = encode,
};

const tlc_stage tlc_stage_stochastic_ternary = {
    .name = "stochastic-ternary",
    .id = 2,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_TERNARY,
    .quantize = TLC_IF_BUILT(TLC_WITH_STOCHASTIC_TERNARY, &quantizer),
};

const tlc_stage_words tlc_words_stochastic_ternary = {
    .meaning = TLC_IF_BUILT(TLC_WITH_STOCHASTIC_TERNARY, "sign(x) with probability |x| / max|x|, else 0"),
    .source =
        TLC_IF_BUILT(TLC_WITH_STOCHASTIC_TERNARY,
                     "Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (stochastic 3-value; TernGrad without clipping)"),
};
