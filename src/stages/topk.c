/* SPDX-License-Identifier: MIT
 *
 * Sparsification: sends the values of the largest magnitudes. By default a sample gives the threshold, and about p n
 * values reach it (3LC's comparison "25%, 5% sparsification", section 5.1; Aji and Heafield, 2017). With select=exact
 * the p n largest are sent.
 * bits=1 sends signs; the magnitude of all members is their mean (Sparse Ternary Compression: Sattler, Wiedemann,
 * Mueller, Samek, 2019). bits=2 sends one of two magnitudes: the means of those below their mean, and of the others.
 * Payload: a bitmap of the members, or what the packer makes of their positions; then the values.
 */
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "../values/fraction.h"
#include "../values/sums.h"
#include "stage.h"

enum { P, BITS, SELECT };
static const char *const bits_words[] = {"32", "1", "2", NULL}, *const select_words[] = {"sampled", "exact", NULL};

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

/* Enough samples for about 200 of them to be sent, and at least 4096: then the share that is sent is seldom off by more
 * than a sixth. */
static uint64_t sample_count(double p, uint64_t n)
{
    uint64_t count = tlc_rounded_up(200.0 / p, n), least = 4096;

    least = least < n ? least : n;
    return count > least ? count : least;
}

static unsigned value_bits(const double *params)
{
    static const unsigned bits[] = {32, 1, 2};
    return bits[(int)params[BITS]];
}

/* The means of the magnitudes of the members below split, and of the others. */
static void means_of_members(const tlc_unit *u, int32_t split, float mean[2])
{
    uint64_t room = members_max(u->params, u->n), mask[2][TLC_SUM_CHUNK / 64], members[2] = {0, 0};
    double sum[2] = {0, 0};
    float buf[TLC_SUM_CHUNK];

    for (size_t at = 0, n; at < u->n; at += n) {
        n = tlc_smaller((size_t)u->n - at, TLC_SUM_CHUNK);
        const float *x = tlc_unit_values(u, at, n, buf);
        uint64_t k = tlc_selection_mask(&u->selection, u->k, x, at, n, mask[0]);
        if (k > room)
            tlc_mask_keep_first(mask[0], n, (size_t)(k = room));
        room -= k;
        if (!k)
            continue;
        (void)u->k->threshold_mask(x, n, 0, TLC_F32_ABS, split, mask[1]);
        for (size_t w = 0; w * 64 < n; w++) {
            uint64_t all = mask[0][w];
            mask[0][w] = all & ~mask[1][w];
            mask[1][w] &= all;
            members[0] += tlc_count_ones(mask[0][w]);
            members[1] += tlc_count_ones(mask[1][w]);
        }
        for (int i = 0; i < 2; i++)
            sum[i] += tlc_masked_sum(x, TLC_F32_ABS, mask[i], n);
    }
    for (int i = 0; i < 2; i++)
        mean[i] = tlc_mean(sum[i], members[i]);
}

/* The same of members that are chosen already. */
static void means_of_chosen(const tlc_unit *u, const tlc_chosen *members, int32_t split, float mean[2])
{
    tlc_running_sum sum[2] = {{.count = 0}};

    for (size_t i = 0; i < members->count; i++) {
        uint32_t key = tlc_selection_key(&u->selection, members->values[i]);
        tlc_running_add(&sum[(int32_t)key >= split], members->positions[i] - u->first, tlc_bits_float(key));
    }
    for (int i = 0; i < 2; i++)
        mean[i] = tlc_running_mean(&sum[i]);
}

static void find_means(const tlc_unit *u, const tlc_chosen *members, int32_t split, float mean[2])
{
    if (members)
        means_of_chosen(u, members, split, mean);
    else
        means_of_members(u, split, mean);
}

/* Sets split and the scalars. members: NULL if the selection chooses them. */
static void choose_magnitudes(tlc_unit *u, const tlc_chosen *members, unsigned bits)
{
    float mean[2];

    u->selection.split = 1;
    find_means(u, members, 1, mean); /* no member is below 1 */
    if (bits == 2) {
        u->selection.split = (int32_t)tlc_float_bits(mean[1]);
        find_means(u, members, u->selection.split, u->scalars);
    } else
        u->scalars[0] = mean[1];
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
    if (value_bits(u->params) < 32)
        choose_magnitudes(u, NULL, value_bits(u->params));
    return 0;
}

static void settle(tlc_unit *u, const tlc_chosen *members)
{
    u->selection = (tlc_selection)TLC_BY_MAGNITUDE;
    if (value_bits(u->params) < 32)
        choose_magnitudes(u, members, value_bits(u->params));
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    unsigned bits = value_bits(u->params);

    (void)tlc_selection_mask(&u->selection, u->k, c->x, c->at, c->count, c->mask);
    uint64_t k = u->k->compact(c->x, c->mask, c->count, c->values);
    for (uint64_t i = 0; bits < 32 && i < k; i++)
        c->values[i] = tlc_few_bits_value(u, bits, c->values[i]);
    return k;
}

static const tlc_param params[] = {
    [P] = TLC_FRACTION_PARAM(0.05),
    [BITS] =
        {
            .key = "bits",
            .words = bits_words,
            .wire_shift = 4,
            .wire_bits = 2,
            .range = "32, 1 or 2, default 32",
        },
    [SELECT] =
        {
            .key = "select",
            .words = select_words,
            .range = "sampled or exact, default sampled",
        },
};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_MEMBERS,
    .chooses = TLC_CHOOSES_BY_VALUES,
    .feedback = 1,
    .has_zero = 1,
    .choose = choose,
    .settle = settle,
    .members_max = members_max,
    .value_bits = value_bits,
    .encode = encode,
};

const tlc_stage tlc_stage_topk = {
    .name = "topk",
    .id = 8,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_MEMBERS,
    .params = TLC_IF_BUILT(TLC_WITH_TOPK, params),
    .param_count = TLC_IS_BUILT(TLC_WITH_TOPK) ? 3 : 0,
    .quantize = TLC_IF_BUILT(TLC_WITH_TOPK, &quantizer),
    .positions = TLC_IF_BUILT(TLC_WITH_TOPK, &tlc_positions_bitmap),
};

const tlc_stage_words tlc_words_topk = {
    .meaning = TLC_IF_BUILT(TLC_WITH_TOPK, "the values of the largest magnitudes, p of them or about p"),
    .source = TLC_IF_BUILT(
        TLC_WITH_TOPK,
        "Aji, Heafield, Sparse communication, 2017; 3LC, 2018, section 5.1; bits=1: Sattler, Wiedemann, Mueller, "
        "Samek, Robust and communication-efficient federated learning, 2019"),
    .params = {TLC_IF_BUILT(TLC_WITH_TOPK, "fraction of the values that is sent, with a sample about"),
               TLC_IF_BUILT(TLC_WITH_TOPK, "of a value: all of it, its sign, or its sign and one of two magnitudes"),
               TLC_IF_BUILT(TLC_WITH_TOPK, "a sample gives the threshold, or the largest are found exactly")},
};
