/* SPDX-License-Identifier: MIT
 *
 * Forward and backward pass, one image at a time. Four of five pixels are 0 and are skipped. The inner loops run over
 * the hidden values, which lie side by side, so that compilers vectorise them without a change of the results.
 */
#include "perceptron.h"
#include "../../train/random.h"
#include <math.h>
#include <string.h>

enum {
    WEIGHTS1 = 0, /* PIXELS x HIDDEN */
    BIASES1 = WEIGHTS1 + PIXELS * HIDDEN,
    WEIGHTS2 = BIASES1 + HIDDEN, /* HIDDEN x CLASSES */
    BIASES2 = WEIGHTS2 + HIDDEN * CLASSES
};

const tensor_place perceptron_tensors[TENSORS] = {{WEIGHTS1, PIXELS *HIDDEN},
                                                  {BIASES1, HIDDEN},
                                                  {WEIGHTS2, HIDDEN *CLASSES},
                                                  {BIASES2, CLASSES}};

/* Uniform in +-sqrt(6 / inputs), the usual start for ReLU. */
static void draw_weights(float *weights, size_t inputs, size_t outputs, uint64_t *state)
{
    float limit = sqrtf(6.0f / (float)inputs);

    for (size_t i = 0; i < inputs * outputs; i++)
        weights[i] = limit * (2 * random_unit(state) - 1);
}

void perceptron_init(float *model, uint64_t seed)
{
    memset(model, 0, PARAMETERS * sizeof *model);
    draw_weights(model + WEIGHTS1, PIXELS, HIDDEN, &seed);
    draw_weights(model + WEIGHTS2, HIDDEN, CLASSES, &seed);
}

static void forward(const float *model, const uint8_t *image, float hidden[HIDDEN], float out[CLASSES])
{
    memcpy(hidden, model + BIASES1, HIDDEN * sizeof *hidden);
    for (int p = 0; p < PIXELS; p++) {
        const float *weights = model + WEIGHTS1 + (size_t)p * HIDDEN;
        float x = (float)image[p] / 255;
        if (image[p])
            for (int h = 0; h < HIDDEN; h++)
                hidden[h] += x * weights[h];
    }
    memcpy(out, model + BIASES2, CLASSES * sizeof *out);
    for (int h = 0; h < HIDDEN; h++) {
        const float *weights = model + WEIGHTS2 + (size_t)h * CLASSES;
        hidden[h] = hidden[h] < 0 ? 0 : hidden[h]; /* a NaN stays */
        for (int c = 0; c < CLASSES; c++)
            out[c] += hidden[h] * weights[c];
    }
}

/* Replaces the outputs by the gradient of the loss with respect to them, and returns the loss. */
static double softmax(float out[CLASSES], int label)
{
    float largest = out[0], sum = 0;

    for (int c = 1; c < CLASSES; c++)
        largest = out[c] > largest ? out[c] : largest;
    for (int c = 0; c < CLASSES; c++)
        sum += out[c] = expf(out[c] - largest);
    for (int c = 0; c < CLASSES; c++)
        out[c] /= sum;
    double loss = -log(fmax(out[label], 0x1p-126));
    out[label] -= 1;
    return isnan(sum) ? NAN : loss; /* fmax drops a NaN */
}

/* Adds the gradient of one image. delta: that of its outputs. */
static void backward(const float *model, const uint8_t *image, const float hidden[HIDDEN], const float delta[CLASSES],
                     float *gradient)
{
    float hidden_delta[HIDDEN];

    for (int c = 0; c < CLASSES; c++)
        gradient[BIASES2 + c] += delta[c];
    for (int h = 0; h < HIDDEN; h++) {
        const float *weights = model + WEIGHTS2 + (size_t)h * CLASSES;
        float *g = gradient + WEIGHTS2 + (size_t)h * CLASSES;
        float sum = 0;
        for (int c = 0; c < CLASSES; c++) {
            sum += delta[c] * weights[c];
            g[c] += delta[c] * hidden[h];
        }
        hidden_delta[h] = hidden[h] > 0 ? sum : 0;
        gradient[BIASES1 + h] += hidden_delta[h];
    }
    for (int p = 0; p < PIXELS; p++) {
        float *g = gradient + WEIGHTS1 + (size_t)p * HIDDEN;
        float x = (float)image[p] / 255;
        if (image[p])
            for (int h = 0; h < HIDDEN; h++)
                g[h] += x * hidden_delta[h];
    }
}

double perceptron_gradient(const float *model, const image_set *s, const uint32_t *which, size_t count, float *gradient)
{
    float hidden[HIDDEN], out[CLASSES];
    double loss = 0;

    memset(gradient, 0, PARAMETERS * sizeof *gradient);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *image = s->pixels + (size_t)which[i] * PIXELS;
        forward(model, image, hidden, out);
        loss += softmax(out, s->labels[which[i]]);
        for (int c = 0; c < CLASSES; c++)
            out[c] /= (float)count;
        backward(model, image, hidden, out, gradient);
    }
    return loss / (double)count;
}

uint32_t perceptron_correct(const float *model, const image_set *s)
{
    float hidden[HIDDEN], out[CLASSES];
    uint32_t correct = 0;

    for (uint32_t i = 0; i < s->count; i++) {
        int best = 0;
        forward(model, s->pixels + (size_t)i * PIXELS, hidden, out);
        for (int c = 1; c < CLASSES; c++)
            best = out[c] > out[best] ? c : best;
        correct += best == s->labels[i];
    }
    return correct;
}
