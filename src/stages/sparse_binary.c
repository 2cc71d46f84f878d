/* SPDX-License-Identifier: MIT
 *
 * Sparse binarisation (Sattler et al., "Sparse Binary Compression", 2018, algorithm 2). There are two sides: the k = p
 * n largest values, and the k largest of the negated values. The side with the larger mean is sent: each of its members
 * decodes to that mean. Scalar: the mean, with its sign.
 *
 * The k-th largest value is found exactly, by three histograms of the bits of the floats, which order like integers:
 * first of the upper 11 bits of the magnitude; then of the next 10 bits, for the values that share the bits found so
 * far; then of the last 10. In large tensors a sample first gives a threshold, and the first histogram counts only the
 * values above it. If these are fewer than k, it is made again of all values. For small units histograms are too large:
 * the k-th largest is found bit by bit.
 */
#include "../common/bytes.h"
#include "../values/fraction.h"
#include "../values/kth_largest.h"
#include "../values/sums.h"
#include "stage.h"

enum { FEW = 1024, SAMPLES = 4096, SAMPLED_FROM = 16 * SAMPLES, LEVELS = 3, BINS = 2048 };
static const unsigned level_shift[LEVELS] = {20, 10, 0}, level_bins[LEVELS] = {BINS, 1024, 1024};

/* The positive values; or the negative ones, negated by flip. */
typedef struct side {
    uint32_t flip;
    int32_t least; /* the least key of a member; during the search only its upper bits */
    uint64_t rank; /* the rank of that key among the values that share these bits; 0: all values are members */
    uint64_t ties; /* how many of the values with the key least are members: the first ones */
    uint64_t last; /* index of the last of these */
    double sum;
    uint64_t count;
} side;

static uint64_t members_max(const double *params, uint64_t n)
{
    uint64_t k = tlc_fraction_nearest(params[0], n);
    return k ? k : 1;
}

static uint32_t key(float x, uint32_t flip)
{
    return tlc_float_bits(x) ^ flip;
}

/* The next chunk of x from at on. */
static const float *chunk(const tlc_unit *u, size_t at, size_t *count, float *buf)
{
    *count = u->n - at < TLC_SUM_CHUNK ? (size_t)(u->n - at) : TLC_SUM_CHUNK;
    return tlc_unit_values(u, at, *count, buf);
}

/* ---- the k-th largest -------------------------------------------------------------------------------------------- */

/* Counts the keys that are in mask by the bits of a level; after the first level only those that share the bits
 * before. */
static void count_keys(const side *s, int level, const float *x, const uint64_t *mask, size_t n, size_t bins[BINS])
{
    unsigned shift = level_shift[level], above = level ? level_shift[level - 1] : 31;
    uint32_t prefix = level ? (uint32_t)s->least >> above : 0;

    for (size_t w = 0; w * 64 < n; w++)
        for (uint64_t bits = mask[w]; bits; bits &= bits - 1) {
            uint32_t k = key(x[w * 64 + (size_t)__builtin_ctzll(bits)], s->flip);
            if (k >> above == prefix)
                bins[k >> shift & (level_bins[level] - 1)]++;
        }
}

/* Fills the bins of the sides whose search goes on. */
static void count_level(const tlc_unit *u, const side s[2], int level, size_t bins[2][BINS])
{
    uint64_t mask[TLC_SUM_CHUNK / 64];
    float buf[TLC_SUM_CHUNK];

    memset(bins, 0, 2 * sizeof bins[0]);
    for (size_t at = 0, n; at < u->n; at += n) {
        const float *x = chunk(u, at, &n, buf);
        for (int i = 0; i < 2; i++)
            if (s[i].rank &&
                u->k->threshold_mask(x, n, s[i].flip, UINT32_MAX, s[i].least ? s[i].least : 1, mask)) /* no zeros */
                count_keys(&s[i], level, x, mask, n, bins[i]);
    }
}

/* Finds the bin of the rank-th largest key. The rank becomes that within the bin. */
static void find_bin(side *s, int level, const size_t *bins)
{
    size_t bin = level_bins[level] - 1;

    for (; bins[bin] < s->rank; bin--)
        s->rank -= bins[bin];
    s->least = (int32_t)((level ? (uint32_t)s->least : 0) | (uint32_t)bin << level_shift[level]);
}

/* A key that is most likely below the rank-th largest one; 1 where it is not worth guessing. */
static int32_t guess(const tlc_unit *u, const side *s)
{
    uint64_t rank = SAMPLES * s->rank / u->n;
    uint32_t keys[SAMPLES];
    float buf[1];

    rank += rank / 4 + 16;
    if (u->n < SAMPLED_FROM || s->rank > u->n / 4)
        return 1;
    for (size_t j = 0; j < SAMPLES; j++) {
        uint32_t k = key(*tlc_unit_values(u, j * (size_t)(u->n / SAMPLES), 1, buf), s->flip);
        keys[j] = k <= TLC_F32_ABS ? k : 0; /* the other side */
    }
    uint32_t found = tlc_kth_largest(keys, SAMPLES, (size_t)rank);
    return found ? (int32_t)found : 1;
}

static uint64_t sum_of(const size_t bins[BINS])
{
    uint64_t sum = 0;

    for (size_t i = 0; i < BINS; i++)
        sum += bins[i];
    return sum;
}

/* Counts the first level, from a guess on if that is low enough. In a side with at most k values all are members. */
static void count_first(const tlc_unit *u, side s[2], size_t bins[2][BINS])
{
    for (int i = 0; i < 2; i++)
        s[i].least = guess(u, &s[i]);
    count_level(u, s, 0, bins);
    for (int i = 0; i < 2; i++)
        if (sum_of(bins[i]) < s[i].rank && s[i].least > 1) { /* the sample was a bad one */
            s[0].least = s[1].least = 1;
            count_level(u, s, 0, bins);
        }
    for (int i = 0; i < 2; i++)
        if (sum_of(bins[i]) <= s[i].rank) {
            s[i].rank = 0;
            s[i].ties = u->n;
        }
}

/* select_members for at most FEW values. */
static void select_of_few(const tlc_unit *u, side *s)
{
    const uint64_t rank = members_max(u->params, u->n);
    uint32_t keys[FEW];
    float buf[FEW];
    const float *x = tlc_unit_values(u, 0, (size_t)u->n, buf);
    size_t count = 0;

    for (size_t i = 0; i < u->n; i++) {
        keys[count] = key(x[i], s->flip);
        count += keys[count] - 1 < TLC_F32_ABS; /* of this side, and not 0 */
    }
    s->least = 1;
    s->ties = rank;
    if (rank > count)
        return; /* all are members */
    s->least = (int32_t)tlc_kth_largest(keys, count, (size_t)rank);
    for (size_t i = 0; i < count; i++)
        s->ties -= (int32_t)keys[i] > s->least;
}

/* Sets least and ties. */
static void select_members(const tlc_unit *u, side s[2])
{
    size_t bins[2][BINS];

    if (u->n <= FEW) {
        select_of_few(u, &s[0]);
        select_of_few(u, &s[1]);
        return;
    }
    s[0].rank = s[1].rank = members_max(u->params, u->n);
    count_first(u, s, bins);
    for (int level = 0; level < LEVELS; level++) {
        if (level && (s[0].rank || s[1].rank))
            count_level(u, s, level, bins);
        for (int i = 0; i < 2; i++)
            if (s[i].rank)
                find_bin(&s[i], level, bins[i]);
    }
    for (int i = 0; i < 2; i++)
        s[i].ties = s[i].rank ? s[i].rank : s[i].ties;
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

/* Removes from the mask the values that are equal to least and come after the first `ties` of them. */
static void drop_ties(side *s, const float *x, size_t at, size_t n, uint64_t *mask)
{
    for (size_t w = 0; w * 64 < n; w++)
        for (uint64_t bits = mask[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            if (key(x[i], s->flip) != (uint32_t)s->least)
                continue;
            if (!s->ties) {
                mask[w] &= ~(bits & -bits);
                continue;
            }
            s->ties--;
            s->last = at + i;
        }
}

static void sum_sides(const tlc_unit *u, side s[2])
{
    uint64_t mask[TLC_SUM_CHUNK / 64];
    float buf[TLC_SUM_CHUNK];

    for (size_t at = 0, n; at < u->n; at += n) {
        const float *x = chunk(u, at, &n, buf);
        for (int i = 0; i < 2; i++) {
            if (!u->k->threshold_mask(x, n, s[i].flip, UINT32_MAX, s[i].least, mask))
                continue;
            drop_ties(&s[i], x, at, n, mask);
            s[i].sum += tlc_masked_sum(x, mask, n);
            for (size_t w = 0; w * 64 < n; w++)
                s[i].count += tlc_count_ones(mask[w]);
        }
    }
}

static uint32_t choose(tlc_unit *u)
{
    side s[2] = {{.flip = 0}, {.flip = ~TLC_F32_ABS}};

    select_members(u, s);
    sum_sides(u, s);
    float up = tlc_mean(s[0].sum, s[0].count), down = tlc_mean(s[1].sum, s[1].count);
    const side *sent = up >= -down ? &s[0] : &s[1];
    u->scalars[0] = sent == &s[0] ? up : down;
    u->selection = (tlc_selection){.flip = sent->flip, .keep = UINT32_MAX, .least = sent->least, .last = sent->last};
    return 0;
}

/* ---- members ----------------------------------------------------------------------------------------------------- */

static uint64_t encode(const tlc_unit *u, const tlc_chunk *c)
{
    const tlc_selection *s = &u->selection;
    uint64_t k = u->k->threshold_mask(c->x, c->count, s->flip, s->keep, s->least, c->mask);

    if (!k || c->at + c->count - 1 <= s->last)
        return k;
    for (size_t w = 0; w * 64 < c->count; w++) /* those that are equal to least, behind the last of them that is sent */
        for (uint64_t bits = c->mask[w]; bits; bits &= bits - 1) {
            size_t i = w * 64 + (size_t)__builtin_ctzll(bits);
            if (c->at + i > s->last && key(c->x[i], s->flip) == (uint32_t)s->least) {
                c->mask[w] &= ~(bits & -bits);
                k--;
            }
        }
    return k;
}

static const tlc_param params[] = {TLC_FRACTION_PARAM(0.01, "fraction of the values that each side may send")};

static const tlc_quantizer quantizer = {
    .makes = TLC_MAKES_MEMBERS,
    .chooses = TLC_CHOOSES_BY_VALUES,
    .scalars = 1,
    .any_sign = 1,
    .feedback = 1,
    .has_zero = 1,
    .choose = choose,
    .members_max = members_max,
    .encode = encode,
};

const tlc_stage tlc_stage_sparse_binary = {
    .name = "sparse-binary",
    .id = 3,
    .takes = TLC_KIND_FLOATS,
    .gives = TLC_KIND_BINARY,
    .params = params,
    .param_count = 1,
    .quantize = &quantizer,
    .meaning = "the largest p of the values or the smallest p, sent as their mean",
    .source = "Sattler, Wiedemann, Mueller, Samek, Sparse Binary Compression, 2018, algorithm 2",
};
