/* SPDX-License-Identifier: MIT
 *
 * The model: a perceptron with one hidden layer, 784-100-10, ReLU, softmax and cross entropy. A model and a gradient
 * are arrays of PARAMETERS floats with four tensors, one after the other.
 */
#ifndef OPTIMISERS_PERCEPTRON_H
#define OPTIMISERS_PERCEPTRON_H

#include "../../train/images.h"
#include <stddef.h>

enum { HIDDEN = 100, TENSORS = 4, PARAMETERS = PIXELS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES };

/* Where a tensor lies in the array. */
typedef struct tensor_place {
    size_t first, n;
} tensor_place;
extern const tensor_place perceptron_tensors[TENSORS];

void perceptron_init(float *model, uint64_t seed);

/* The mean loss of `count` images of the set, and the gradient of this mean. which: their indices. */
double perceptron_gradient(const float *model, const image_set *s, const uint32_t *which, size_t count,
                           float *gradient);

/* How many images of the set the model recognises. */
uint32_t perceptron_correct(const float *model, const image_set *s);
#endif
