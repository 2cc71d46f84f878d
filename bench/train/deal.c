/* SPDX-License-Identifier: MIT */
#include "deal.h"
#include "../lib/explain.h"
#include "random.h"
#include <stdlib.h>
#include <string.h>

/* A state for what is drawn from a seed and two numbers. */
static uint64_t state_of(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t state = random_next(&seed) + a;

    state = random_next(&state) + b;
    return random_next(&state);
}

static void shuffle(uint32_t *values, size_t n, uint64_t state)
{
    for (size_t i = n; i > 1; i--) {
        const size_t k = random_below(&state, (uint32_t)i);
        const uint32_t value = values[i - 1];
        values[i - 1] = values[k];
        values[k] = value;
    }
}

/* ---- shares ------------------------------------------------------------------------------------------------------ */

/* Where part i of n begins, of `count` images. */
static size_t begin_of(size_t i, size_t n, uint32_t count)
{
    return (size_t)((uint64_t)count * i / n);
}

static void sort_by_class(const image_set *s, const uint32_t *order, uint32_t *sorted)
{
    uint32_t at[CLASSES + 1] = {0};

    for (uint32_t i = 0; i < s->count; i++)
        at[s->labels[i] + 1]++;
    for (int c = 0; c < CLASSES; c++)
        at[c + 1] += at[c];
    for (uint32_t i = 0; i < s->count; i++)
        sorted[at[s->labels[order[i]]]++] = order[i];
}

/* Shard k x ranks + i goes to the rank that is at place i in the k-th shuffled list of ranks. */
static void deal_shards(deal *d, const uint32_t *sorted, uint32_t *list, size_t classes, uint32_t count)
{
    const size_t shards = d->ranks * classes;
    size_t end = 0;

    for (size_t r = 0; r < d->ranks; r++) {
        d->first[r] = end;
        for (size_t k = 0; k < classes; k++) {
            for (size_t i = 0; i < d->ranks; i++)
                list[i] = (uint32_t)i;
            shuffle(list, d->ranks, state_of(d->seed, 1, k));
            size_t shard = k * d->ranks;
            while (list[shard - k * d->ranks] != r)
                shard++;
            const size_t from = begin_of(shard, shards, count), to = begin_of(shard + 1, shards, count);
            memcpy(d->order + end, sorted + from, (to - from) * sizeof *sorted);
            end += to - from;
        }
    }
}

static bool deal_classes(deal *d, const image_set *s, size_t classes, char *why)
{
    uint32_t *sorted = malloc((s->count + d->ranks) * sizeof *sorted);

    if (!sorted)
        return explain(why, "out of memory");
    sort_by_class(s, d->order, sorted);
    deal_shards(d, sorted, sorted + s->count, classes, s->count);
    free(sorted);
    return true;
}

bool deal_open(deal *d, const image_set *s, size_t ranks, size_t classes, uint64_t seed, char *why)
{
    const size_t shards = ranks * (classes ? classes : 1);

    *d = (deal){.seed = seed, .ranks = ranks};
    if (s->count < shards)
        return explain(why, "%lu images are too few for %zu shares", (unsigned long)s->count, shards);
    d->order = calloc(s->count, sizeof *d->order);
    d->pass = calloc(s->count, sizeof *d->pass);
    d->first = calloc(ranks + 1, sizeof *d->first);
    if (!d->order || !d->pass || !d->first)
        return explain(why, "out of memory");
    for (uint32_t i = 0; i < s->count; i++)
        d->order[i] = i;
    shuffle(d->order, s->count, state_of(seed, 0, 0));
    for (size_t r = 0; r <= ranks; r++)
        d->first[r] = begin_of(r, ranks, s->count);
    return !classes || deal_classes(d, s, classes, why);
}

void deal_close(deal *d)
{
    free(d->order);
    free(d->pass);
    free(d->first);
}

const uint32_t *deal_share(const deal *d, size_t rank, size_t *count)
{
    *count = d->first[rank + 1] - d->first[rank];
    return d->order + d->first[rank];
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

static void begin_pass(deal *d, size_t rank, uint64_t number)
{
    size_t count;
    const uint32_t *share = deal_share(d, rank, &count);

    if (d->pass_rank == rank && d->pass_number == number)
        return;
    memcpy(d->pass, share, count * sizeof *share);
    shuffle(d->pass, count, state_of(d->seed, 2 + rank, number));
    d->pass_rank = rank;
    d->pass_number = number;
}

void deal_batch(deal *d, size_t rank, uint64_t number, size_t count, uint32_t *index)
{
    const size_t share = d->first[rank + 1] - d->first[rank];

    for (size_t i = 0; i < count; i++) {
        const uint64_t at = number * count + i;
        begin_pass(d, rank, at / share + 1);
        index[i] = d->pass[at % share];
    }
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* Each rank is drawn with the chance that it has among those that are left. */
void deal_round(uint64_t seed, uint64_t round, size_t ranks, size_t participants, bool *in)
{
    uint64_t state = state_of(seed, 1, ~round);

    for (size_t r = 0; r < ranks; r++) {
        in[r] = random_below(&state, (uint32_t)(ranks - r)) < participants;
        participants -= in[r];
    }
}
