/* SPDX-License-Identifier: MIT
 *
 * Random sparsification without bias: x / p with probability p, else 0 (Tang et al., DCD-PSGD and ECD-PSGD, 2018,
 * footnote 2). p is rounded up to P, a multiple of 2^-24. Random numbers have 24 bits, so P is the exact probability.
 * Payload: Golomb-coded positions of the members, then a f32 for each, x / P.
 */
#include "../values/fraction.h"
#include "stage.h"

/* P in multiples of 2^-24. */
static uint32_t limit(const double *params)
{
    return (uint32_t)tlc_fraction_up(params[0], 1u << 24);
}

static float divisor(const double *params)
{
    return (float)limit(params) * 0x1p-24f;
}

static uint32_t scale(const double *params, tlc_dtype dtype, uint32_t max)
{
    (void)dtype;
    return tlc_float_bits(tlc_bits_float(max) / divisor(params));
}

static uint64_t members_max(const double *params, uint64_t n)
{
    (void)params;
    return n;
}

static unsigned value_bits(const double *params)
{
    (void)params;
    return 32;
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    uint32_t words[TLC_CHUNK];
    float P = divisor(u->params);

    tlc_unit_words(u, c->at, c->count, words);
    (void)u->k->random_mask(c->x, words, c->count, limit(u->params), c->mask);
    size_t k = u->k->compact(c->x, c->mask, c->count, c->values);
    for (size_t i = 0; i < k; i++)
        c->values[i] /= P;
    return k;
}

static const tlc_param params[] = {TLC_FRACTION_PARAM(0.25)};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_MEMBERS,
    .has_zero = 1,
    .unbiased = 1,
    .scale = scale,
    .members_max = members_max,
    .value_bits = value_bits,
    .encode = encode,
};

const tlc_stage tlc_stage_random_sparse = {
    .name = "random-sparse",
    .id = 9,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .params = TLC_IF_BUILT(TLC_WITH_RANDOM_SPARSE, params),
    .param_count = TLC_IS_BUILT(TLC_WITH_RANDOM_SPARSE) ? 1 : 0,
    .quantize = TLC_IF_BUILT(TLC_WITH_RANDOM_SPARSE, &quantizer),
    .positions = TLC_IF_BUILT(TLC_WITH_RANDOM_SPARSE, &tlc_positions_golomb),
};

const tlc_stage_words tlc_words_random_sparse = {
    .meaning = TLC_IF_BUILT(TLC_WITH_RANDOM_SPARSE, "x / p with probability p, else 0"),
    .source = TLC_IF_BUILT(TLC_WITH_RANDOM_SPARSE,
                           "Tang, Gan, Zhang, Zhang, Liu, DCD-PSGD and ECD-PSGD, 2018, footnote 2"),
    .params = {TLC_IF_BUILT(TLC_WITH_RANDOM_SPARSE, "probability that a value is sent")},
};
