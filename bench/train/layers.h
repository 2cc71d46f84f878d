/* SPDX-License-Identifier: MIT
 *
 * Layers of a network, forwards and backwards, for a batch of images at once. The products are OpenBLAS's.
 *
 * Values of a batch are [channel][image][pixel] before LAYER_FLATTEN, and [image][feature] after it.
 */
#ifndef TRAIN_LAYERS_H
#define TRAIN_LAYERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum layer_kind {
    LAYER_CONV,    /* out x in x kernel x kernel weights, a bias for each out, no padding */
    LAYER_POOL,    /* the largest of 2 x 2 pixels */
    LAYER_FLATTEN, /* channels of pixels become features */
    LAYER_DENSE,   /* out x in weights, a bias for each out */
    LAYER_RELU
} layer_kind;

typedef struct layer {
    layer_kind kind;
    const char *weights, *biases; /* names of its tensors, where it has some */
    size_t in, out;               /* channels, or features */
    size_t side, kernel;          /* of the input images: side x side pixels; 1 after LAYER_FLATTEN */
    float *value;                 /* what comes out */
    float *slope;                 /* the derivative of the loss by it */
    float *columns;               /* conv: in x kernel x kernel rows of pixels that a weight meets */
    uint8_t *largest;             /* pool: which of the 4 */
} layer;

/* Takes memory for batches of `batch` images. false: there is none. */
bool layer_open(layer *l, size_t batch);
void layer_close(layer *l);

size_t layer_out_side(const layer *l);
size_t layer_weights(const layer *l); /* 0: it has none, and no biases */

/* x: what comes in. w, b: weights and biases, where it has them. */
void layer_forward(layer *l, size_t batch, const float *x, const float *w, const float *b);

/* From l->slope: dw and db, where it has weights, and dx, the slope of what came in; NULL: it is not wanted. */
void layer_backward(layer *l, size_t batch, const float *x, const float *w, float *dw, float *db, float *dx);

/* The mean loss of softmax and cross-entropy over a batch, and its derivative by the scores, [image][class]. */
double layer_loss(size_t batch, size_t classes, const float *scores, const uint8_t *labels, float *slope);
#endif
