/* SPDX-License-Identifier: MIT */
#include "classifier.h"
#include "../lib/explain.h"
#include "random.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the models -------------------------------------------------------------------------------------------------- */

#define CONV(name, channels, from)                                                                                     \
    {.kind = LAYER_CONV,                                                                                               \
     .weights = name ".weight",                                                                                        \
     .biases = name ".bias",                                                                                           \
     .in = (from),                                                                                                     \
     .out = (channels),                                                                                                \
     .kernel = 5}
#define POOL(channels) {.kind = LAYER_POOL, .in = (channels), .out = (channels)}
#define DENSE(name, features, from)                                                                                    \
    {.kind = LAYER_DENSE, .weights = name ".weight", .biases = name ".bias", .in = (from), .out = (features)}
#define RELU(features) {.kind = LAYER_RELU, .in = (features), .out = (features)}

static const layer mlp[] = {
    DENSE("fc1", 300, PIXELS), RELU(300), DENSE("fc2", 100, 300), RELU(100), DENSE("fc3", CLASSES, 100),
};

static const layer lenet5[] = {
    CONV("conv1", 20, 1),
    POOL(20),
    CONV("conv2", 50, 20),
    POOL(50),
    {.kind = LAYER_FLATTEN, .in = 50, .out = 800},
    DENSE("fc1", 500, 800),
    RELU(500),
    DENSE("fc2", CLASSES, 500),
};

static void add_tensor(classifier *c, const char *name, size_t n)
{
    c->tensor[c->tensors++] = (classifier_tensor){.name = name, .n = n, .first = c->values};
    c->values += n;
}

static void list_tensors(classifier *c)
{
    for (size_t i = 0; i < c->layers; i++) {
        const layer *l = &c->layer[i];
        if (!layer_weights(l))
            continue;
        add_tensor(c, l->weights, layer_weights(l));
        add_tensor(c, l->biases, l->out);
    }
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

bool classifier_open(classifier *c, classifier_kind kind, size_t batch, char *why)
{
    size_t side = kind == CLASSIFIER_LENET5 ? SIDE : 1;
    bool ok;

    *c = (classifier){.batch = batch};
    c->layers = kind == CLASSIFIER_LENET5 ? sizeof lenet5 / sizeof *lenet5 : sizeof mlp / sizeof *mlp;
    memcpy(c->layer, kind == CLASSIFIER_LENET5 ? lenet5 : mlp, c->layers * sizeof *c->layer);
    list_tensors(c);
    openblas_set_num_threads(1); /* ranks share the machine, and sums have one order */
    c->pixels = calloc(batch * PIXELS, sizeof *c->pixels);
    c->labels = calloc(batch, sizeof *c->labels);
    ok = c->pixels && c->labels;
    for (size_t i = 0; i < c->layers; i++) {
        c->layer[i].side = side;
        side = layer_out_side(&c->layer[i]);
        ok = ok && layer_open(&c->layer[i], batch);
    }
    return ok || explain(why, "out of memory");
}

void classifier_close(classifier *c)
{
    for (size_t i = 0; i < c->layers; i++)
        layer_close(&c->layer[i]);
    free(c->pixels);
    free(c->labels);
}

void classifier_draw(const classifier *c, uint64_t seed, float *weights)
{
    size_t tensor = 0;

    memset(weights, 0, c->values * sizeof *weights);
    for (size_t i = 0; i < c->layers; i++) {
        const size_t n = layer_weights(&c->layer[i]);
        if (!n)
            continue;
        float *w = weights + c->tensor[tensor].first;
        const size_t inputs = n / c->layer[i].out;
        const float most = sqrtf(3 / (float)inputs);
        for (size_t k = 0; k < n; k++)
            w[k] = (2 * random_unit(&seed) - 1) * most;
        tensor += 2;
    }
}

/* ---- forwards and backwards -------------------------------------------------------------------------------------- */

static void take_image(classifier *c, const image_set *images, uint32_t image, size_t at)
{
    const uint8_t *pixels = images->pixels + (size_t)image * PIXELS;

    for (size_t i = 0; i < PIXELS; i++)
        c->pixels[at * PIXELS + i] = (float)pixels[i] / 255;
    c->labels[at] = images->labels[image];
}

/* Returns the scores. */
static const float *forward(classifier *c, const float *weights, size_t count)
{
    const float *x = c->pixels;
    size_t tensor = 0;

    for (size_t i = 0; i < c->layers; i++) {
        layer *l = &c->layer[i];
        const bool has = layer_weights(l);
        layer_forward(l, count, x, has ? weights + c->tensor[tensor].first : NULL,
                      has ? weights + c->tensor[tensor + 1].first : NULL);
        tensor += has ? 2 : 0;
        x = l->value;
    }
    return x;
}

static void backward(classifier *c, const float *weights, size_t count, float *gradient, classifier_ready ready,
                     void *arg)
{
    size_t tensor = c->tensors;

    for (size_t i = c->layers; i-- > 0;) {
        layer *l = &c->layer[i];
        const float *x = i ? l[-1].value : c->pixels;
        float *dx = i ? l[-1].slope : NULL;
        if (!layer_weights(l)) {
            layer_backward(l, count, x, NULL, NULL, NULL, dx);
            continue;
        }
        tensor -= 2;
        layer_backward(l, count, x, weights + c->tensor[tensor].first, gradient + c->tensor[tensor].first,
                       gradient + c->tensor[tensor + 1].first, dx);
        for (size_t t = 2; ready && t-- > 0;)
            ready(arg, tensor + t);
    }
}

double classifier_gradient(classifier *c, const float *weights, const image_set *images, const uint32_t *index,
                           size_t count, float *gradient, classifier_ready ready, void *arg)
{
    for (size_t i = 0; i < count; i++)
        take_image(c, images, index[i], i);
    const float *scores = forward(c, weights, count);
    const double loss = layer_loss(count, CLASSES, scores, c->labels, c->layer[c->layers - 1].slope);
    backward(c, weights, count, gradient, ready, arg);
    return loss;
}

/* ---- what it tells ----------------------------------------------------------------------------------------------- */

static size_t largest(const float *scores)
{
    size_t most = 0;

    for (size_t i = 1; i < CLASSES; i++)
        if (scores[i] > scores[most])
            most = i;
    return most;
}

size_t classifier_right(classifier *c, const float *weights, const image_set *images, uint32_t first, size_t count)
{
    size_t right = 0;

    for (size_t done = 0, now; done < count; done += now) {
        now = count - done < c->batch ? count - done : c->batch;
        for (size_t i = 0; i < now; i++)
            take_image(c, images, first + (uint32_t)(done + i), i);
        const float *scores = forward(c, weights, now);
        for (size_t i = 0; i < now; i++)
            right += largest(scores + i * CLASSES) == c->labels[i];
    }
    return right;
}
