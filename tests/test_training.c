/* SPDX-License-Identifier: MIT
 *
 * Trainings whose gradients, or changes of weights, go through the exchange. With the codec raw they are plain SGD.
 * With lossy codecs they reach the loss that the same training reaches with floats; if residuals are lost, they do not.
 *
 * A table is printed. Its numbers are the same on all machines, since the bits of the library are (E7) and those of the
 * models.
 */
#include "train_runs.h"
#include <math.h>

/* A loss is reached within 2%. */
#define REACHED 1.02

enum { RANKS = 4, ROWS = 1000 };

static const model *const models[] = {&logistic, &perceptron};

static int is_left_out(cluster_kind kind)
{
    return quick() && kind != CLUSTER_SHARDED && kind != CLUSTER_DELTAS;
}

/* ---- raw --------------------------------------------------------------------------------------------------------- */

/* A step of SGD with a rate of at most 2 / L does not move two weight vectors apart, if the loss is convex and its
 * gradient has the Lipschitz constant L: in logistic regression at most the mean of |x|^2 / 4, where x has a 1 for the
 * bias. So the weights are as close to those of plain SGD as the errors of all exchanges allow together. Both trainings
 * also round gradients. Slopes are at most 1, so this error, with that of the slope, is at most 2^-23 |x|. */
static void require_close_weights(const data *d, const schedule *s, const trained *got, const trained *plain)
{
    double longest = 0, gap = 0;

    for (size_t row = 0; row < d->ranks * d->rows; row++) {
        const float *x = d->x + row * d->m->inputs;
        double squares = 1;
        for (size_t i = 0; i < d->m->inputs; i++)
            squares += (double)x[i] * x[i];
        longest = fmax(longest, squares);
    }
    require(s->rate * longest / 4 <= 2);
    for (size_t i = 0; i < d->m->values; i++) {
        double difference = (double)got->weights[i] - plain->weights[i];
        gap += difference * difference;
    }
    require(sqrt(gap) <= got->gap + 2 * 0x1p-23 * sqrt(longest) * s->rate * (double)s->exchanges);
}

static void raw_is_plain_sgd(void **state)
{
    static const size_t ranks[] = {1, 2, 4, 7};

    (void)state;
    for (size_t m = 0; m < COUNT(models); m++)
        for (size_t r = 0; r < COUNT(ranks); r++) {
            data d = data_draw(models[m], ranks[r], 100, 4);
            const schedule each = {.exchanges = quick() ? 10 : 40, .batch = 4, .part = ranks[r], .rate = 2};
            const schedule rounds =
                {.exchanges = 10, .delay = 3, .batch = 4, .part = (ranks[r] + 1) / 2, .rate = 0.5, .momentum = 0.9};
            const trained plain = train(&d, &each, NULL), averaged = train(&d, &rounds, NULL);
            for (cluster_kind kind = 0; kind < CLUSTER_KINDS; kind++) {
                const cluster_options o = {"raw", kind, 0};
                trained got = train(&d, &each, &o);
                if (!models[m]->hidden)
                    require_close_weights(&d, &each, &got, &plain);
                require(fabs(got.loss / plain.loss - 1) < 1e-6);
                got = train(&d, &rounds, &o);
                require(fabs(got.loss / averaged.loss - 1) < 1e-6);
            }
            data_free(&d);
        }
}

/* ---- lossy codecs ------------------------------------------------------------------------------------------------ */

static trained train_row(const data *d, const schedule *s, const cluster_options *o, double floats)
{
    trained got = train(d, s, o);

    printf("#   %-26s %-10s %7.5f %9.4f %13.0f %8.0f%s\n", o->codec, cluster_names[o->kind], got.loss,
           got.loss / floats, got.rank_sent, got.server_sent, o->forget ? "  residuals are lost" : "");
    return got;
}

/* The first codec is raw. The last one is tried without its residuals, too. */
static void compare_with_floats(const data *d, const schedule *s, const char *const *list, size_t count)
{
    const double floats = train(d, s, NULL).loss;
    double raw_sent[CLUSTER_KINDS] = {0};

    printf("#\n# %s, %zu ranks, %zu exchanges of %s\n", d->m->name, d->ranks, s->exchanges,
           s->delay ? "weight changes" : "gradients");
    printf("#   %-26s %-10s %7s %9s %13s %8s\n", "codec", "exchange", "loss", "to floats", "bytes: a rank", "a server");
    printf("#   %-37s %7.5f\n", "floats", floats);
    for (size_t c = 0; c <= count; c++)
        for (cluster_kind kind = 0; kind < CLUSTER_KINDS; kind++) {
            const cluster_options o = {list[c < count ? c : count - 1], kind, c == count};
            if (is_left_out(kind))
                continue;
            trained got = train_row(d, s, &o, floats);
            require((got.loss <= REACHED * floats) == !o.forget);
            require(c == 0 || got.rank_sent < raw_sent[kind]);
            if (c == 0)
                raw_sent[kind] = got.rank_sent;
        }
}

static schedule every_gradient(const model *m)
{
    return (schedule){.exchanges = m->hidden ? 400 : 300, .batch = 4, .part = RANKS, .rate = m->hidden ? 2 : 3};
}

static void gradients_reach_floats(void **state)
{
    static const char *const list[] = {"raw", "natural", "3lc", "3lc-golomb", "topk:p=0.03,bits=2+golomb"};

    (void)state;
    for (size_t m = 0; m < (quick() ? 1 : COUNT(models)); m++) {
        data d = data_draw(models[m], RANKS, ROWS, 5);
        const schedule s = every_gradient(models[m]);
        compare_with_floats(&d, &s, list, COUNT(list));
        data_free(&d);
    }
}

/* Ten local steps, and half of the ranks in a round. */
static schedule federated(const model *m)
{
    return (schedule){.exchanges = m->hidden ? 400 : 300,
                      .delay = 10,
                      .batch = 4,
                      .part = RANKS / 2,
                      .rate = m->hidden ? 0.15 : 0.3,
                      .momentum = 0.9};
}

/* Sparse Binary Compression, compared with federated averaging of floats. Plain SGD with as many gradients ends at
 * another loss: a higher one in logistic regression (0.28407, sbc at most 0.23623), a lower one in the perceptron
 * (0.38412, sbc at most 0.40335). */
static void rounds_reach_floats(void **state)
{
    static const char *const list[] = {"raw", "sbc"};

    (void)state;
    for (size_t m = 0; m < (quick() ? 1 : COUNT(models)); m++) {
        data d = data_draw(models[m], RANKS, ROWS, 5);
        const schedule s = federated(models[m]);
        schedule plain = every_gradient(models[m]);
        compare_with_floats(&d, &s, list, COUNT(list));
        plain.exchanges = s.exchanges * s.delay * s.part / plain.part;
        printf("#   %-37s %7.5f\n", "plain SGD with as many gradients", train(&d, &plain, NULL).loss);
        data_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(raw_is_plain_sgd),
        cmocka_unit_test(gradients_reach_floats),
        cmocka_unit_test(rounds_reach_floats),
    };
    print_isas();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
