/* SPDX-License-Identifier: MIT
 *
 * Sparsification: sends the values of the largest magnitudes. By default a sample gives the threshold, and about p n
 * values reach it (3LC's comparison "25%, 5% sparsification", section 5.1; Aji and Heafield, 2017). With select=exact
 * the p n largest are sent.
 * Payload: a bitmap of the members, or what the packer makes of their positions; then a f32 for each.
 */
#include "../common/sizes.h"
#include "../values/fraction.h"
#include "stage.h"

enum { P, SELECT };
static const char *const select_words[] = {"sampled", "exact", NULL};

static int is_exact(const double *params)
{
    return params[SELECT] >= 1;
}

/* With a sample at most twice as many as wanted are sent. */
static uint64_t members_max(const double *params, uint64_t n)
{
    uint64_t twice = tlc_product(tlc_fraction_up(params[P], n), 2), k = tlc_fraction_nearest(params[P], n);

    if (is_exact(params))
        return k ? k : 1;
    return twice < n ? twice : n;
}

/* So many samples that about 200 of them are sent, and at least 4096: then the share that is sent is seldom off by more
 * than a sixth. */
static uint64_t sample_count(double p, uint64_t n)
{
    uint64_t count = tlc_rounded_up(200.0 / p, n), least = 4096;

    least = least < n ? least : n;
    return count > least ? count : least;
}

static uint32_t choose(tlc_unit *u)
{
    tlc_candidates c = {.input = u->input, .first = u->first, .n = u->n, .random = u->random};
    uint64_t k = members_max(u->params, u->n);

    u->selection = (tlc_selection)TLC_BY_MAGNITUDE;
    if (!is_exact(u->params)) {
        c.samples = sample_count(u->params[P], u->n);
        k = tlc_fraction_up(u->params[P], c.samples);
    }
    tlc_search(&c, k, &u->selection, 1);
    return 0;
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    (void)tlc_selection_mask(&u->selection, u->k, c->x, c->at, c->count, c->mask);
    return u->k->compact(c->x, c->mask, c->count, c->values);
}

static const tlc_param params[] = {
    [P] = TLC_FRACTION_PARAM(0.05, "fraction of the values that is sent, with a sample about"),
    [SELECT] =
        {
            .key = "select",
            .words = select_words,
            .range = "sampled or exact, default sampled",
            .meaning = "a sample gives the threshold, or the largest are found exactly",
        },
};

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
    .gives = TLC_KIND_MEMBERS,
    .params = params,
    .param_count = 2,
    .quantize = &quantizer,
    .positions = &tlc_positions_bitmap,
    .meaning = "the values of the largest magnitudes, p of them or about p",
    .source =
        "Aji, Heafield, Sparse communication, 2017; Lim, Andersen, Kaminsky, 3LC, 2018, section 5.1 (sparsification)",
};
