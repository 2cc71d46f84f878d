/* SPDX-License-Identifier: MIT
 *
 * Forward and backward pass, a row at a time, in double.
 */
#include "train_models.h"
#include <math.h>

enum { INPUTS = 512, PIXELS = 48, HIDDEN = 16, LOUD = 3 };

const model logistic = {"logistic", INPUTS, 0, INPUTS + 1, 2, {{"weights", 0, INPUTS}, {"bias", INPUTS, 1}}};
const model perceptron = {"perceptron",
                          PIXELS,
                          HIDDEN,
                          (PIXELS + 2) * HIDDEN + 1,
                          4,
                          {{"weights", 0, PIXELS *HIDDEN},
                           {"biases", PIXELS *HIDDEN, HIDDEN},
                           {"weights.out", (PIXELS + 1) * HIDDEN, HIDDEN},
                           {"bias.out", (PIXELS + 2) * HIDDEN, 1}}};

/* ---- the loss ---------------------------------------------------------------------------------------------------- */

/* For x <= 0: the series for x / 1024, then ten squarings. The error is below 1e-10 of the result down to x = -40. */
static double exp_of(double x)
{
    double y = (x < -40 ? -40 : x) / 1024;
    double e = 1 + y * (1 + y / 2 * (1 + y / 3 * (1 + y / 4 * (1 + y / 5 * (1 + y / 6)))));

    for (int i = 0; i < 10; i++)
        e *= e;
    return e;
}

/* log(1 + e) for 0 <= e <= 1, as 2 atanh(e / (2 + e)). The series has 16 terms, and ratios of at most 1/9. */
static double log1p_of(double e)
{
    double z = e / (2 + e), sum = 0;

    for (int k = 31; k > 0; k -= 2)
        sum = sum * z * z + 1.0 / k;
    return 2 * z * sum;
}

static double loss_of(double margin)
{
    return log1p_of(exp_of(-fabs(margin))) + (margin < 0 ? -margin : 0);
}

/* The derivative of loss_of is -doubt_of. */
static double doubt_of(double margin)
{
    double e = exp_of(-fabs(margin));

    return (margin < 0 ? 1 : e) / (1 + e);
}

/* ---- the models -------------------------------------------------------------------------------------------------- */

/* hidden: values of the hidden layer before their activation. */
static double forward(const model *m, const float *weights, const float *x, double *hidden)
{
    const float *biases = weights + m->inputs * m->hidden, *out = biases + m->hidden;
    double output;

    if (!m->hidden) {
        double sum[4] = {weights[m->inputs]}; /* four at a time: faster */
        for (size_t i = 0; i < m->inputs; i += COUNT(sum))
            for (size_t j = 0; j < COUNT(sum); j++)
                sum[j] += (double)weights[i + j] * x[i + j];
        return sum[0] + sum[1] + (sum[2] + sum[3]);
    }
    for (size_t h = 0; h < m->hidden; h++)
        hidden[h] = biases[h];
    for (size_t i = 0; i < m->inputs; i++)
        for (size_t h = 0; h < m->hidden; h++)
            hidden[h] += (double)weights[i * m->hidden + h] * x[i];
    output = out[m->hidden];
    for (size_t h = 0; h < m->hidden; h++)
        output += out[h] * hidden[h] / (1 + fabs(hidden[h])); /* softsign */
    return output;
}

/* gradient += slope * the gradient of the output. */
static void backward(const model *m, const float *weights, const float *x, const double *hidden, double slope,
                     double *gradient)
{
    const float *out = weights + (m->inputs + 1) * m->hidden;
    double *biases = gradient + m->inputs * m->hidden, *out_gradient = biases + m->hidden;
    double before[HIDDEN];

    gradient[m->values - 1] += slope;
    for (size_t i = 0; !m->hidden && i < m->inputs; i++)
        gradient[i] += slope * x[i];
    for (size_t h = 0; h < m->hidden; h++) {
        double share = 1 / (1 + fabs(hidden[h]));
        out_gradient[h] += slope * hidden[h] * share;
        before[h] = slope * out[h] * share * share;
        biases[h] += before[h];
    }
    for (size_t i = 0; i < m->inputs; i++)
        for (size_t h = 0; h < m->hidden; h++)
            gradient[i * m->hidden + h] += before[h] * x[i];
}

void model_start(const model *m, float *weights)
{
    rng r = {1};

    memset(weights, 0, m->values * sizeof *weights);
    for (size_t i = 0; m->hidden && i < m->values; i++)
        weights[i] = (float)(rng_double(&r) - 0.5);
}

void model_gradient(const data *d, size_t rank, size_t first, size_t count, const float *weights, float *gradient)
{
    double hidden[HIDDEN] = {0}, sum[MOST_VALUES] = {0};

    for (size_t i = 0; i < count; i++) {
        size_t row = rank * d->rows + (first + i) % d->rows;
        const float *x = d->x + row * d->m->inputs;
        double label = d->label[row], margin = label * forward(d->m, weights, x, hidden);
        backward(d->m, weights, x, hidden, -label * doubt_of(margin) / (double)count, sum);
    }
    for (size_t i = 0; i < d->m->values; i++)
        gradient[i] = (float)sum[i];
}

double model_loss(const data *d, const float *weights)
{
    double hidden[HIDDEN] = {0}, sum = 0;

    for (size_t row = 0; row < d->ranks * d->rows; row++)
        sum += loss_of(d->label[row] * forward(d->m, weights, d->x + row * d->m->inputs, hidden));
    return sum / (double)(d->ranks * d->rows);
}

/* ---- the data ---------------------------------------------------------------------------------------------------- */

/* Uniform in -limit .. limit. */
static float draw(rng *r, double limit)
{
    return (float)((2 * rng_double(r) - 1) * limit);
}

/* Each rank has inputs that are LOUD times larger than the others. They tell no more than these, but their gradients
 * are the largest: a codec that sends the largest values alone, and forgets the rest, learns little from the others. */
static int is_loud(size_t rank, size_t input)
{
    return input % 16 == rank;
}

/* All teachers agree in most weights. */
static void draw_teacher(const model *m, size_t rank, rng *r, float *teacher)
{
    const double limit = m->hidden ? 8 : 12;
    rng common = {2};

    for (size_t i = 0; i < m->values; i++) {
        size_t input = m->hidden ? i / m->hidden : i;
        teacher[i] = draw(&common, limit);
        if (!rng_below(r, 8))
            teacher[i] += draw(r, limit);
        if (input < m->inputs && is_loud(rank, input))
            teacher[i] /= (float)LOUD;
    }
}

data data_draw(const model *m, size_t ranks, size_t rows, uint64_t seed)
{
    data d = {m, ranks, rows, floats(ranks * rows * m->inputs), floats(ranks * rows)};
    const double limit = sqrt(3.0 / (double)m->inputs); /* the squares of a row add up to about 1 */
    double hidden[HIDDEN] = {0};
    float teacher[MOST_VALUES] = {0};
    rng r = {seed};

    for (size_t row = 0; row < ranks * rows; row++) {
        float *x = d.x + row * m->inputs;
        size_t rank = row / rows;
        if (row % rows == 0)
            draw_teacher(m, rank, &r, teacher);
        for (size_t i = 0; i < m->inputs; i++)
            x[i] = draw(&r, is_loud(rank, i) ? (double)LOUD * limit : limit);
        double output = forward(m, teacher, x, hidden), doubt = doubt_of(fabs(output));
        d.label[row] = (output < 0) == (rng_double(&r) < doubt) ? 1 : -1;
    }
    return d;
}

void data_free(data *d)
{
    free(d->x);
    free(d->label);
}

draws draws_open(const model *m, size_t ranks, size_t rows, size_t seeds)
{
    draws d = {.seeds = quick() ? 1 : getenv("TLC_TEST_ALL_SEEDS") ? SEEDS : seeds};

    for (size_t i = 0; i < d.seeds; i++)
        d.of[i] = data_draw(m, ranks, rows, 5 + i);
    return d;
}

void draws_close(draws *d)
{
    for (size_t i = 0; i < d->seeds; i++)
        data_free(&d->of[i]);
}
