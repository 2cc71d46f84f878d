/* SPDX-License-Identifier: MIT
 *
 * Sparse binarisation (Sattler et al., "Sparse Binary Compression", 2018, algorithm 2). There are two sides: the k = p
 * n largest values, and the k largest of the negated values. The side with the larger mean is sent: each of its members
 * decodes to that mean. Scalar: the mean, with its sign.
 */
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "../values/fraction.h"
#include "../values/sums.h"
#include "stage.h"

static uint64_t members_max(const double *params, uint64_t n)
{
    uint64_t k = tlc_fraction_nearest(params[0], n);
    return k ? k : 1;
}

/* The means of the members of both sides, the second one negative. */
static void mean_of_sides(const tlc_unit *u, const tlc_selection side[2], float mean[2])
{
    uint64_t mask[TLC_SUM_CHUNK / 64], members[2] = {0, 0};
    double sum[2] = {0, 0};
    float buf[TLC_SUM_CHUNK];

    for (size_t at = 0, n; at < u->n; at += n) {
        n = tlc_smaller((size_t)u->n - at, TLC_SUM_CHUNK);
        const float *x = tlc_unit_values(u, at, n, buf);
        for (int i = 0; i < 2; i++) {
            uint64_t k = tlc_selection_mask(&side[i], u->k, x, at, n, mask);
            if (k)
                sum[i] += tlc_masked_sum(x, UINT32_MAX, mask, n);
            members[i] += k;
        }
    }
    for (int i = 0; i < 2; i++)
        mean[i] = tlc_mean(sum[i], members[i]);
}

/* The side that is sent, and its mean. */
static void take_side(tlc_unit *u, const tlc_selection side[2], const float mean[2])
{
    int sent = mean[0] >= -mean[1] ? 0 : 1;

    u->scalars[0] = mean[sent];
    u->selection = side[sent];
}

static uint32_t choose(tlc_unit *u)
{
    const tlc_candidates all = {.input = u->input, .first = u->first, .n = u->n};
    tlc_selection side[2] = {TLC_POSITIVE, TLC_NEGATIVE};
    float mean[2];

    tlc_search(&all, members_max(u->params, u->n), side, 2);
    mean_of_sides(u, side, mean);
    take_side(u, side, mean);
    return 0;
}

/* The members of both sides come, and their signs tell the sides. */
static void settle(tlc_unit *u, const tlc_chosen *members)
{
    const tlc_selection side[2] = {TLC_POSITIVE, TLC_NEGATIVE};
    tlc_running_sum sum[2] = {{.count = 0}};

    for (size_t i = 0; i < members->count; i++)
        tlc_running_add(&sum[tlc_float_bits(members->values[i]) >> 31], members->positions[i] - u->first,
                        members->values[i]);
    const float mean[2] = {tlc_running_mean(&sum[0]), tlc_running_mean(&sum[1])};
    take_side(u, side, mean);
}

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    return tlc_selection_mask(&u->selection, u->k, c->x, c->at, c->count, c->mask);
}

static const tlc_param params[] = {TLC_FRACTION_PARAM(0.01)};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_MEMBERS,
    .chooses = TLC_CHOOSES_BY_VALUES,
    .scalars = 1,
    .any_sign = 1,
    .feedback = 1,
    .has_zero = 1,
    .choose = choose,
    .settle = settle,
    .members_max = members_max,
    .encode = encode,
};

const tlc_stage tlc_stage_sparse_binary = {
    .name = "sparse-binary",
    .id = 3,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BINARY,
    .params = TLC_IF_BUILT(TLC_WITH_SPARSE_BINARY, params),
    .param_count = TLC_IS_BUILT(TLC_WITH_SPARSE_BINARY) ? 1 : 0,
    .quantize = TLC_IF_BUILT(TLC_WITH_SPARSE_BINARY, &quantizer),
};

const tlc_stage_words tlc_words_sparse_binary = {
    .meaning = TLC_IF_BUILT(TLC_WITH_SPARSE_BINARY,
                            "the largest p of the values or the smallest p, sent as their mean"),
    .source = TLC_IF_BUILT(TLC_WITH_SPARSE_BINARY,
                           "Sattler, Wiedemann, Mueller, Samek, Sparse Binary Compression, 2018, algorithm 2"),
    .params = {TLC_IF_BUILT(TLC_WITH_SPARSE_BINARY, "fraction of the values that each side may send")},
};
