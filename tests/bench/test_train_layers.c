/* SPDX-License-Identifier: MIT
 *
 * The models of tlc-mpi-train: gradients are the slopes of the loss, a convolution is the sum that it should be, and a
 * few steps teach both models.
 */
#include "../../bench/lib/explain.h"
#include "../../bench/train/classifier.h"
#include "../../bench/train/optimiser.h"
#include "../../bench/train/random.h"
#include "../support/support.h"
#include <math.h>

enum { BATCH = 12 };

typedef struct subject {
    classifier c;
    image_set images;
    uint32_t index[BATCH];
    float *weights, *gradient, *other;
} subject;

static void subject_open(subject *s, classifier_kind kind)
{
    char why[WHY_SIZE];

    assert_true(classifier_open(&s->c, kind, BATCH, why));
    assert_true(images_draw(&s->images, 200, 1, 2, why));
    for (uint32_t i = 0; i < BATCH; i++)
        s->index[i] = 7 * i;
    s->weights = calloc(s->c.values, sizeof *s->weights);
    s->gradient = calloc(s->c.values, sizeof *s->gradient);
    s->other = calloc(s->c.values, sizeof *s->other);
    assert_true(s->weights && s->gradient && s->other);
    classifier_draw(&s->c, 3, s->weights);
}

static void subject_close(subject *s)
{
    classifier_close(&s->c);
    images_free(&s->images);
    free(s->weights);
    free(s->gradient);
    free(s->other);
}

static double loss_of(subject *s)
{
    return classifier_gradient(&s->c, s->weights, &s->images, s->index, BATCH, s->other, NULL, NULL);
}

/* The loss falls and rises along the gradient of a tensor as its norm says. */
static void check_slope(subject *s, const classifier_tensor *t)
{
    float *w = s->weights + t->first;
    const float *g = s->gradient + t->first;
    double squares = 0, change[2];
    float *before = malloc(t->n * sizeof *before);

    assert_non_null(before);
    memcpy(before, w, t->n * sizeof *w);
    for (size_t i = 0; i < t->n; i++)
        squares += (double)g[i] * (double)g[i];
    assert_true(squares > 0);
    const float step = (float)(2e-3 / sqrt(squares));
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < t->n; i++)
            w[i] = before[i] + (side ? step : -step) * g[i];
        change[side] = loss_of(s);
    }
    const double slope = (change[1] - change[0]) / (2 * (double)step);
    if (fabs(slope - squares) > 0.02 * squares)
        fail_msg("%s: the loss changes by %g, and the gradient says %g", t->name, slope, squares);
    memcpy(w, before, t->n * sizeof *w);
    free(before);
}

static void check_gradients(classifier_kind kind)
{
    subject s;

    subject_open(&s, kind);
    classifier_gradient(&s.c, s.weights, &s.images, s.index, BATCH, s.gradient, NULL, NULL);
    for (size_t t = 0; t < s.c.tensors; t++)
        check_slope(&s, &s.c.tensor[t]);
    loss_of(&s);
    assert_memory_equal(s.gradient, s.other, s.c.values * sizeof *s.gradient); /* the same bits again */
    subject_close(&s);
}

TEST(gradients_of_mlp)
{
    check_gradients(CLASSIFIER_MLP);
}

TEST(gradients_of_lenet5)
{
    check_gradients(CLASSIFIER_LENET5);
}

/* A single weight moves the loss as its own gradient says: the gradient is not only right along itself. */
TEST(single_weights)
{
    uint64_t random = 5;
    subject s;

    subject_open(&s, CLASSIFIER_LENET5);
    classifier_gradient(&s.c, s.weights, &s.images, s.index, BATCH, s.gradient, NULL, NULL);
    for (size_t t = 0; t < s.c.tensors; t++) {
        const classifier_tensor *tensor = &s.c.tensor[t];
        for (int k = 0; k < 4; k++) {
            const size_t i = tensor->first + random_below(&random, (uint32_t)tensor->n);
            const float before = s.weights[i], step = 4e-3f;
            double change[2];
            for (int side = 0; side < 2; side++) {
                s.weights[i] = before + (side ? step : -step);
                change[side] = loss_of(&s);
            }
            s.weights[i] = before;
            const double slope = (change[1] - change[0]) / (2 * (double)step), said = (double)s.gradient[i];
            if (fabs(slope - said) > 2e-3 + 0.1 * fabs(said))
                fail_msg("%s, %zu: the loss changes by %g, and the gradient says %g", tensor->name, i - tensor->first,
                         slope, said);
        }
    }
    subject_close(&s);
}

static float slow_conv(const layer *l, const float *x, const float *w, size_t out, size_t image, size_t y, size_t col)
{
    float sum = 0;

    for (size_t in = 0; in < l->in; in++)
        for (size_t i = 0; i < l->kernel; i++)
            for (size_t j = 0; j < l->kernel; j++)
                sum += w[((out * l->in + in) * l->kernel + i) * l->kernel + j] *
                       x[((in * 2 + image) * l->side + y + i) * l->side + col + j];
    return sum;
}

TEST(convolution)
{
    layer l = {.kind = LAYER_CONV, .in = 3, .out = 4, .side = 7, .kernel = 3};
    float x[3 * 2 * 7 * 7], w[4 * 3 * 3 * 3], b[4];
    const size_t side = 5;
    uint64_t random = 1;

    assert_true(layer_open(&l, 2));
    assert_int_equal(layer_out_side(&l), side);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = random_unit(&random) - 0.5f;
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        w[i] = random_unit(&random) - 0.5f;
    for (size_t i = 0; i < 4; i++)
        b[i] = random_unit(&random);
    layer_forward(&l, 2, x, w, b);
    for (size_t out = 0; out < l.out; out++)
        for (size_t image = 0; image < 2; image++)
            for (size_t y = 0; y < side; y++)
                for (size_t col = 0; col < side; col++) {
                    const float is = l.value[((out * 2 + image) * side + y) * side + col];
                    assert_true(fabsf(is - b[out] - slow_conv(&l, x, w, out, image, y, col)) < 1e-5f);
                }
    layer_close(&l);
}

typedef struct order {
    size_t next;
    int wrong;
} order;

static void expect_next(void *arg, size_t tensor)
{
    order *o = arg;

    o->wrong += tensor + 1 != o->next;
    o->next = tensor;
}

TEST(ready_in_order)
{
    for (int kind = CLASSIFIER_MLP; kind <= CLASSIFIER_LENET5; kind++) {
        subject s;
        subject_open(&s, (classifier_kind)kind);
        order o = {.next = s.c.tensors, .wrong = 0};
        classifier_gradient(&s.c, s.weights, &s.images, s.index, BATCH, s.gradient, expect_next, &o);
        assert_int_equal(o.next, 0);
        assert_int_equal(o.wrong, 0);
        subject_close(&s);
    }
}

TEST(both_learn)
{
    for (int kind = CLASSIFIER_MLP; kind <= CLASSIFIER_LENET5; kind++) {
        char why[WHY_SIZE];
        optimiser o;
        subject s;
        uint64_t random = 4;
        subject_open(&s, (classifier_kind)kind);
        assert_true(optimiser_open(&o, MOMENTUM, 0.05f, s.c.values, 60, why));
        const size_t before = classifier_right(&s.c, s.weights, &s.images, 0, s.images.count);
        for (int step = 0; step < 60; step++) {
            for (size_t i = 0; i < BATCH; i++)
                s.index[i] = random_below(&random, s.images.count);
            classifier_gradient(&s.c, s.weights, &s.images, s.index, BATCH, s.gradient, NULL, NULL);
            optimiser_step(&o, s.gradient, s.weights);
        }
        assert_true(before < 60);
        assert_true(classifier_right(&s.c, s.weights, &s.images, 0, s.images.count) > 180); /* of 200 */
        optimiser_close(&o);
        subject_close(&s);
    }
}

/* 0 scores: all classes are as likely. */
TEST(loss_of_nothing)
{
    const float scores[2 * CLASSES] = {0};
    const uint8_t labels[2] = {3, 9};
    float slope[2 * CLASSES];

    assert_true(fabs(layer_loss(2, CLASSES, scores, labels, slope) - log(10)) < 1e-12);
    for (size_t i = 0; i < 2 * CLASSES; i++)
        assert_true(slope[i] == (i % CLASSES == labels[i / CLASSES] ? -0.45f : 0.05f));
}
