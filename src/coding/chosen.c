/* SPDX-License-Identifier: MIT */
#include "chosen.h"
#include "../values/sums.h"

/* A sum in the order of values/sums.h. All 0: of no values. */
typedef struct running_sum {
    double lane[TLC_SUM_LANES], before; /* of the chunk of the last value; of the chunks before it */
    uint64_t chunk, count;
} running_sum;

/* Indices rise. */
static void add(running_sum *s, uint64_t index, float x)
{
    if (index / TLC_SUM_CHUNK != s->chunk) {
        s->before += tlc_fold_lanes(s->lane);
        memset(s->lane, 0, sizeof s->lane);
        s->chunk = index / TLC_SUM_CHUNK;
    }
    s->lane[index % TLC_SUM_LANES] += (double)x;
    s->count++;
}

static void means_of(running_sum sum[2], float mean[2])
{
    for (int i = 0; i < 2; i++)
        mean[i] = tlc_mean(sum[i].before + tlc_fold_lanes(sum[i].lane), sum[i].count);
}

/* The means of the magnitudes of the members below split, and of the others. */
static void magnitudes(const tlc_unit *u, const tlc_chosen *members, int32_t split, float mean[2])
{
    running_sum sum[2] = {{.count = 0}};

    for (size_t i = 0; i < members->count; i++) {
        const uint32_t key = tlc_selection_key(&u->selection, members->values[i]);
        add(&sum[(int32_t)key >= split], members->positions[i] - u->first, tlc_bits_float(key));
    }
    means_of(sum, mean);
}

static void choose_side(tlc_unit *u, const tlc_chosen *members)
{
    static const tlc_selection side[2] = {TLC_POSITIVE, TLC_NEGATIVE};
    running_sum sum[2] = {{.count = 0}};
    float mean[2];

    for (size_t i = 0; i < members->count; i++)
        add(&sum[tlc_float_bits(members->values[i]) >> 31], members->positions[i] - u->first, members->values[i]);
    means_of(sum, mean);
    const int sent = mean[0] >= -mean[1] ? 0 : 1;
    u->scalars[0] = mean[sent];
    u->selection = side[sent];
}

void tlc_settle(tlc_unit *u, const tlc_chosen *members, unsigned bits)
{
    float mean[2];

    u->selection = (tlc_selection)TLC_BY_MAGNITUDE;
    u->selection.split = 1; /* no member is below 1 */
    if (!bits)
        choose_side(u, members);
    if (bits != 1 && bits != 2)
        return;
    magnitudes(u, members, 1, mean);
    u->scalars[0] = mean[1];
    if (bits == 1)
        return;
    u->selection.split = (int32_t)tlc_float_bits(mean[1]);
    magnitudes(u, members, u->selection.split, u->scalars);
}
