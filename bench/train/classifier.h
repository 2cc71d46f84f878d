/* SPDX-License-Identifier: MIT
 *
 * The two models that are trained: they tell digits apart. All weights are in one array, tensor after tensor, and so
 * are gradients.
 */
#ifndef TRAIN_CLASSIFIER_H
#define TRAIN_CLASSIFIER_H

#include "images.h"
#include "layers.h"

typedef enum classifier_kind {
    CLASSIFIER_MLP,   /* a perceptron 784-300-100-10 with ReLU: 266,610 weights */
    CLASSIFIER_LENET5 /* Caffe's LeNet-5, which SBC uses: 5x5 convolutions to 20 and 50 channels, each pooled, a layer
                         of 500 with ReLU, and 10: 431,080 weights */
} classifier_kind;

enum { CLASSIFIER_TENSORS = 8, CLASSIFIER_LAYERS = 8 };

typedef struct classifier_tensor {
    const char *name;
    size_t n, first; /* values, and where they begin */
} classifier_tensor;

typedef struct classifier {
    size_t tensors;
    classifier_tensor tensor[CLASSIFIER_TENSORS]; /* of each layer that has some: weights, biases */
    size_t values;                                /* of all tensors */
    size_t layers;
    layer layer[CLASSIFIER_LAYERS];
    size_t batch;    /* most images at once */
    float *pixels;   /* of a batch, 0 to 1 */
    uint8_t *labels; /* of a batch */
} classifier;

bool classifier_open(classifier *c, classifier_kind kind, size_t batch, char *why);
void classifier_close(classifier *c);

/* Weights to start with, uniform within sqrt(3 / inputs), and biases of 0; the same on every machine. */
void classifier_draw(const classifier *c, uint64_t seed, float *weights);

/* Called when the gradient of a tensor is complete. */
typedef void (*classifier_ready)(void *arg, size_t tensor);

/* The gradient of the mean loss of the images index[0 .. count - 1], and that loss. ready is called for each tensor,
 * from the last to the first; it may be NULL. */
double classifier_gradient(classifier *c, const float *weights, const image_set *images, const uint32_t *index,
                           size_t count, float *gradient, classifier_ready ready, void *arg);

/* How many of the images first .. first + count - 1 it recognises. */
size_t classifier_right(classifier *c, const float *weights, const image_set *images, uint32_t first, size_t count);
#endif
