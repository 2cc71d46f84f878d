/* SPDX-License-Identifier: MIT
 *
 * A convolution is one product of matrices: its columns are written out first (im2col).
 */
#include "layers.h"
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------ */

size_t layer_out_side(const layer *l)
{
    switch (l->kind) {
    case LAYER_CONV: return l->side - l->kernel + 1;
    case LAYER_POOL: return l->side / 2;
    case LAYER_FLATTEN: return 1;
    default: return l->side;
    }
}

size_t layer_weights(const layer *l)
{
    if (l->kind == LAYER_CONV)
        return l->out * l->in * l->kernel * l->kernel;
    return l->kind == LAYER_DENSE ? l->out * l->in : 0;
}

/* Pixels of an image that come out. */
static size_t out_pixels(const layer *l)
{
    return layer_out_side(l) * layer_out_side(l);
}

/* The rows of columns: the terms whose sum is a pixel of an output channel. */
static size_t rows_of(const layer *l)
{
    return l->in * l->kernel * l->kernel;
}

bool layer_open(layer *l, size_t batch)
{
    const size_t values = batch * l->out * out_pixels(l);

    l->value = calloc(values, sizeof *l->value);
    l->slope = calloc(values, sizeof *l->slope);
    if (l->kind == LAYER_CONV)
        l->columns = calloc(rows_of(l) * batch * out_pixels(l), sizeof *l->columns);
    if (l->kind == LAYER_POOL)
        l->largest = calloc(values, 1);
    return l->value && l->slope && (l->kind != LAYER_CONV || l->columns) && (l->kind != LAYER_POOL || l->largest);
}

void layer_close(layer *l)
{
    free(l->value);
    free(l->slope);
    free(l->columns);
    free(l->largest);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* c (rows x columns) = a b + beta c; a is rows x inner, or that transposed, b is inner x columns, or that transposed */
static void multiply(bool a_turned, bool b_turned, size_t rows, size_t columns, size_t inner, const float *a,
                     const float *b, float beta, float *c)
{
    cblas_sgemm(CblasRowMajor, a_turned ? CblasTrans : CblasNoTrans, b_turned ? CblasTrans : CblasNoTrans, (int)rows,
                (int)columns, (int)inner, 1, a, (int)(a_turned ? rows : inner), b, (int)(b_turned ? inner : columns),
                beta, c, (int)columns);
}

static float sum_of(const float *values, size_t n, size_t step)
{
    float sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += values[i * step];
    return sum;
}

/* ---- convolution ------------------------------------------------------------------------------------------------- */

/* Where in x the pixels begin that the weight of this row meets for line y of the output. */
static size_t window_of(const layer *l, size_t batch, size_t row, size_t image, size_t y)
{
    const size_t k = l->kernel, channel = row / (k * k);

    return (channel * batch + image) * l->side * l->side + (y + row / k % k) * l->side + row % k;
}

/* Copies pixels to the columns, line by line. */
static void spread(layer *l, size_t batch, const float *x)
{
    const size_t side = layer_out_side(l);
    float *to = l->columns;

    for (size_t row = 0; row < rows_of(l); row++)
        for (size_t image = 0; image < batch; image++)
            for (size_t y = 0; y < side; y++, to += side)
                memcpy(to, x + window_of(l, batch, row, image, y), side * sizeof *to);
}

/* Adds the columns up where their pixels came from. */
static void gather(const layer *l, size_t batch, float *x)
{
    const size_t side = layer_out_side(l);
    const float *from = l->columns;

    for (size_t row = 0; row < rows_of(l); row++)
        for (size_t image = 0; image < batch; image++)
            for (size_t y = 0; y < side; y++, from += side) {
                float *to = x + window_of(l, batch, row, image, y);
                for (size_t i = 0; i < side; i++)
                    to[i] += from[i];
            }
}

static void conv_forward(layer *l, size_t batch, const float *x, const float *w, const float *b)
{
    const size_t columns = batch * out_pixels(l);

    spread(l, batch, x);
    for (size_t c = 0; c < l->out; c++)
        for (size_t i = 0; i < columns; i++)
            l->value[c * columns + i] = b[c];
    multiply(false, false, l->out, columns, rows_of(l), w, l->columns, 1, l->value);
}

/* The columns are not needed any more: their slopes take their place. */
static void conv_backward(layer *l, size_t batch, const float *w, float *dw, float *db, float *dx)
{
    const size_t columns = batch * out_pixels(l);

    multiply(false, true, l->out, rows_of(l), columns, l->slope, l->columns, 0, dw);
    for (size_t c = 0; c < l->out; c++)
        db[c] = sum_of(l->slope + c * columns, columns, 1);
    if (!dx)
        return;
    multiply(true, false, rows_of(l), columns, l->out, w, l->slope, 0, l->columns);
    memset(dx, 0, l->in * batch * l->side * l->side * sizeof *dx);
    gather(l, batch, dx);
}

/* ---- pool, flatten, ReLU ---------------------------------------------------------------------------------------- */

/* The first of the 2 x 2 pixels that pixel i of all channels and images comes from. */
static size_t corner_of(const layer *l, size_t i)
{
    const size_t side = l->side / 2, plane = i / (side * side), y = i / side % side, x = i % side;

    return plane * l->side * l->side + 2 * y * l->side + 2 * x;
}

static void pool_forward(layer *l, size_t batch, const float *x)
{
    const size_t values = batch * l->out * out_pixels(l), offset[4] = {0, 1, l->side, l->side + 1};

    for (size_t i = 0; i < values; i++) {
        const float *corner = x + corner_of(l, i);
        uint8_t largest = 0;
        for (uint8_t k = 1; k < 4; k++)
            if (corner[offset[k]] > corner[offset[largest]])
                largest = k;
        l->largest[i] = largest;
        l->value[i] = corner[offset[largest]];
    }
}

static void pool_backward(const layer *l, size_t batch, float *dx)
{
    const size_t values = batch * l->out * out_pixels(l), offset[4] = {0, 1, l->side, l->side + 1};

    memset(dx, 0, batch * l->in * l->side * l->side * sizeof *dx);
    for (size_t i = 0; i < values; i++)
        dx[corner_of(l, i) + offset[l->largest[i]]] = l->slope[i];
}

/* [channel][image][pixel] to [image][channel][pixel], or back. */
static void turn(size_t first, size_t second, size_t pixels, const float *from, float *to)
{
    for (size_t i = 0; i < first; i++)
        for (size_t j = 0; j < second; j++)
            memcpy(to + (j * first + i) * pixels, from + (i * second + j) * pixels, pixels * sizeof *to);
}

static void relu_forward(layer *l, size_t n, const float *x)
{
    for (size_t i = 0; i < n; i++)
        l->value[i] = x[i] > 0 ? x[i] : 0;
}

static void relu_backward(const layer *l, size_t n, float *dx)
{
    for (size_t i = 0; i < n; i++)
        dx[i] = l->value[i] > 0 ? l->slope[i] : 0;
}

/* ---- dense ------------------------------------------------------------------------------------------------------- */

static void dense_forward(layer *l, size_t batch, const float *x, const float *w, const float *b)
{
    for (size_t i = 0; i < batch; i++)
        memcpy(l->value + i * l->out, b, l->out * sizeof *b);
    multiply(false, true, batch, l->out, l->in, x, w, 1, l->value);
}

static void dense_backward(const layer *l, size_t batch, const float *x, const float *w, float *dw, float *db,
                           float *dx)
{
    multiply(true, false, l->out, l->in, batch, l->slope, x, 0, dw);
    for (size_t c = 0; c < l->out; c++)
        db[c] = sum_of(l->slope + c, batch, l->out);
    if (dx)
        multiply(false, false, batch, l->in, l->out, l->slope, w, 0, dx);
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

void layer_forward(layer *l, size_t batch, const float *x, const float *w, const float *b)
{
    switch (l->kind) {
    case LAYER_CONV: conv_forward(l, batch, x, w, b); break;
    case LAYER_POOL: pool_forward(l, batch, x); break;
    case LAYER_FLATTEN: turn(l->in, batch, l->side * l->side, x, l->value); break;
    case LAYER_DENSE: dense_forward(l, batch, x, w, b); break;
    case LAYER_RELU: relu_forward(l, batch * l->out * out_pixels(l), x); break;
    }
}

void layer_backward(layer *l, size_t batch, const float *x, const float *w, float *dw, float *db, float *dx)
{
    switch (l->kind) {
    case LAYER_CONV: conv_backward(l, batch, w, dw, db, dx); return;
    case LAYER_DENSE: dense_backward(l, batch, x, w, dw, db, dx); return;
    default: break;
    }
    if (!dx)
        return;
    if (l->kind == LAYER_POOL)
        pool_backward(l, batch, dx);
    else if (l->kind == LAYER_FLATTEN)
        turn(batch, l->in, l->side * l->side, l->slope, dx);
    else
        relu_backward(l, batch * l->out * out_pixels(l), dx);
}

double layer_loss(size_t batch, size_t classes, const float *scores, const uint8_t *labels, float *slope)
{
    double loss = 0;

    for (size_t i = 0; i < batch; i++) {
        const float *s = scores + i * classes;
        float *d = slope + i * classes, most = s[0];
        for (size_t c = 1; c < classes; c++)
            most = fmaxf(most, s[c]);
        double sum = exp((double)(s[0] - most));
        for (size_t c = 1; c < classes; c++)
            sum += exp((double)(s[c] - most));
        for (size_t c = 0; c < classes; c++)
            d[c] = (float)((exp((double)(s[c] - most)) / sum - (c == labels[i])) / (double)batch);
        loss += log(sum) - (double)(s[labels[i]] - most);
    }
    return loss / (double)batch;
}
