/* SPDX-License-Identifier: MIT
 *
 * Sparsification: sends about p n values, those of the largest magnitudes. A sample gives the threshold, as in 3LC's
 * comparison "25%, 5% sparsification" (section 5.1; Aji and Heafield, 2017). The values are sent as they are.
 * Payload: a bitmap of the members, then a f32 for each.
 */
#include "../common/sizes.h"
#include "../values/fraction.h"
#include "../values/kth_largest.h"
#include "stage.h"

enum { SAMPLES = 4096 };

static uint64_t members_max(const double *params, uint64_t n)
{
    uint64_t twice = tlc_product(tlc_fraction_up(params[0], n), 2);
    return twice < n ? twice : n;
}

/* Samples m magnitudes: the j-th is drawn at random from the j-th of m equal parts of the unit. */
static void sample(const tlc_unit *u, size_t m, uint32_t *magnitudes)
{
    size_t stretch = (size_t)u->n / m;
    uint32_t words[SAMPLES];
    float buf[1];

    tlc_unit_words(u, 0, m, words);
    for (size_t j = 0; j < m; j++)
        magnitudes[j] = tlc_float_bits(*tlc_unit_values(u, j * stretch + words[j] % stretch, 1, buf)) & TLC_F32_ABS;
}

static uint32_t choose(tlc_unit *u)
{
    size_t m = u->n < SAMPLES ? (size_t)u->n : SAMPLES;
    uint32_t magnitudes[SAMPLES];

    sample(u, m, magnitudes);
    uint32_t least = tlc_kth_largest(magnitudes, m, (size_t)tlc_fraction_up(u->params[0], m));
    u->selection = (tlc_selection){.keep = TLC_F32_ABS, .least = least ? (int32_t)least : 1, .last = UINT64_MAX};
    return 0;
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    const tlc_selection *s = &u->selection;

    (void)u->k->threshold_mask(c->x, c->count, s->flip, s->keep, s->least, c->mask);
    return u->k->compact(c->x, c->mask, c->count, c->values);
}

static const tlc_param params[] = {TLC_FRACTION_PARAM(0.05, "fraction of the values that is sent, about")};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_MEMBERS,
    .chooses = TLC_CHOOSES_BY_VALUES,
    .feedback = 1,
    .has_zero = 1,
    .sends_values = 1,
    .choose = choose,
    .members_max = members_max,
    .encode = encode,
};

const tlc_stage tlc_stage_topk = {
    .name = "topk",
    .id = 8,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BYTES,
    .params = params,
    .param_count = 1,
    .quantize = &quantizer,
    .positions = &tlc_positions_bitmap,
    .meaning = "about p of the values, those of the largest magnitudes; a sample gives the threshold",
    .source =
        "Aji, Heafield, Sparse communication, 2017; Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (sparsification)",
};
