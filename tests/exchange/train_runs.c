/* SPDX-License-Identifier: MIT */
#include "train_runs.h"
#include <math.h>

typedef struct training {
    const data *d;
    const schedule *s;
    cluster *cluster;
    int raw;
    rng chance;                              /* who is in the round */
    size_t row[MOST_RANKS];                  /* the next one of each rank */
    float momentum[MOST_RANKS][MOST_VALUES]; /* stays from round to round (SBC, Algorithm 1) */
    float own[MOST_RANKS][MOST_VALUES];      /* gradients or changes */
    const float *given[MOST_RANKS];          /* own, or NULL if the rank is not in the round */
    trained now;
} training;

/* ---- what the ranks do ------------------------------------------------------------------------------------------- */

static void choose_ranks(training *t)
{
    size_t ranks = t->d->ranks, places = t->s->part;

    for (size_t r = 0; r < ranks; r++) {
        int chosen = rng_below(&t->chance, ranks - r) < places;
        places -= (size_t)chosen;
        t->given[r] = chosen ? t->own[r] : NULL;
    }
}

static void next_gradient(training *t, size_t r, const float *weights, float *gradient)
{
    model_gradient(t->d, r, t->row[r], t->s->batch, weights, gradient);
    t->row[r] += t->s->batch;
}

/* SGD with momentum; own = the change of the weights. */
static void local_steps(training *t, size_t r, float rate)
{
    const size_t n = t->d->m->values;
    float weights[MOST_VALUES], gradient[MOST_VALUES], *momentum = t->momentum[r];

    memcpy(weights, t->now.weights, n * sizeof *weights);
    for (size_t step = 0; step < t->s->delay; step++) {
        next_gradient(t, r, weights, gradient);
        for (size_t i = 0; i < n; i++) {
            momentum[i] = (float)t->s->momentum * momentum[i] + gradient[i];
            weights[i] -= rate * momentum[i];
        }
    }
    for (size_t i = 0; i < n; i++)
        t->own[r][i] = weights[i] - t->now.weights[i];
}

static void work(training *t, float rate)
{
    for (size_t r = 0; r < t->d->ranks; r++) {
        if (!t->given[r])
            continue;
        if (t->s->delay)
            local_steps(t, r, rate);
        else
            next_gradient(t, r, t->now.weights, t->own[r]);
    }
}

/* ---- the exchange ------------------------------------------------------------------------------------------------ */

/* The mean of what the ranks have of value i, and of its magnitudes. */
static double mean_of(const training *t, size_t i, double *magnitude)
{
    double sum = 0, magnitudes = 0;

    for (size_t r = 0; r < t->d->ranks; r++)
        if (t->given[r]) {
            sum += t->given[r][i];
            magnitudes += fabs((double)t->given[r][i]);
        }
    *magnitude = magnitudes / (double)t->s->part;
    return sum / (double)t->s->part;
}

/* The new weights are those of plain SGD, to rounding. With N ranks the library rounds 1 / N, a product, and N - 1
 * sums; then the product with the factor is rounded. Each is an error of at most 2^-24 of the mean magnitude. N + 3
 * instead of N + 2 covers products of errors. In groups N ranks in S sites are N - 1 sums, too; but 1 / N and the
 * product are rounded in the site and between sites, which makes two more. The new weight is rounded here and there,
 * and on servers its change is, too. */
static void require_plain(training *t, const float *before, double factor)
{
    double squares = 0;

    for (size_t i = 0; i < t->d->m->values; i++) {
        double magnitude, after = t->now.weights[i], sum = before[i] + factor * mean_of(t, i, &magnitude);
        double bound = 0x1p-24 * (double)(t->s->part + 5) * fabs(factor) * magnitude +
                       0x1p-24 * 3 * fmax(fabs((double)before[i]), fabs(after));
        at.i = i;
        require(fabs(after - (float)sum) <= bound);
        squares += bound * bound;
    }
    t->now.gap += sqrt(squares);
}

static void average(training *t, float factor)
{
    double magnitude;

    for (size_t i = 0; i < t->d->m->values; i++)
        t->now.weights[i] = (float)(t->now.weights[i] + factor * mean_of(t, i, &magnitude));
}

static void exchange(training *t, float factor)
{
    const size_t n = t->d->m->values;
    float before[MOST_VALUES], change[MOST_VALUES];

    memcpy(before, t->now.weights, n * sizeof *before);
    cluster_exchange(t->cluster, t->given, factor, change);
    for (size_t i = 0; i < n; i++)
        t->now.weights[i] += change[i];
    for (size_t r = 0; r < t->d->ranks && t->s->delay; r++)
        if (t->given[r])
            cluster_mask(t->cluster, r, t->momentum[r]);
    if (t->raw)
        require_plain(t, before, factor);
}

trained train(const data *d, const schedule *s, const cluster_options *o)
{
    training *t = calloc(1, sizeof *t);
    trained result;

    require(t != NULL);
    at = (place){.codec = o ? o->codec : NULL, .note = o ? cluster_names[o->kind] : "floats", .n = d->m->values};
    t->d = d;
    t->s = s;
    t->chance.state = 3;
    t->raw = o && !strcmp(o->codec, "raw");
    model_start(d->m, t->now.weights);
    t->cluster = o ? cluster_open(o, d->m, d->ranks, t->now.weights) : NULL;
    for (size_t e = 0; e < s->exchanges; e++) {
        float rate = (float)(s->rate * (1 - (double)e / (double)s->exchanges)), factor = s->delay ? 1 : -rate;
        choose_ranks(t);
        work(t, rate);
        if (t->cluster)
            exchange(t, factor);
        else
            average(t, factor);
    }
    result = t->now;
    result.loss = model_loss(d, result.weights);
    if (t->cluster) {
        result.rank_sent = cluster_rank_sent(t->cluster);
        result.server_sent = cluster_server_sent(t->cluster);
        cluster_close(t->cluster);
    }
    free(t);
    return result;
}
