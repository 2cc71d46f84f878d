/* SPDX-License-Identifier: MIT
 *
 * The values to send: x = residual + gradient, or the gradient alone without error feedback. Gradients may have any
 * dtype and any alignment.
 */
#ifndef TLC_INPUT_H
#define TLC_INPUT_H

#include "dtype.h"

typedef struct tlc_input {
    const tlc_kernels *k;
    tlc_dtype dtype;
    const uint8_t *grad; /* NULL: x is the residual alone */
    float *residual;     /* NULL: no error feedback; grad and residual are not both NULL */
} tlc_input;

/* The gradient of values at .. at + count - 1 as floats: in place if possible, else converted into buf. NULL: there is
 * no gradient. */
const float *tlc_input_gradient(const tlc_input *in, size_t at, size_t count, float *buf);

/* x of the same values: in place if it is in memory as floats, else computed in buf. */
const float *tlc_input_wanted(const tlc_input *in, size_t at, size_t count, float *buf);

/* The residual from value `at` on, or NULL. */
static inline float *tlc_input_residual(const tlc_input *in, size_t at)
{
    return in->residual ? in->residual + at : NULL;
}

/* Can a sweep take all values at once? If not, gradients are converted a chunk at a time. */
static inline int tlc_input_in_place(const tlc_input *in)
{
    return !in->grad || tlc_is_floats(in->dtype, in->grad);
}

/* A sweep over any number of values. Returns the largest |x| as bits, as the kernel absmax does. */
typedef uint32_t tlc_input_sweep(const tlc_input *in, size_t at, size_t count);
tlc_input_sweep tlc_input_absmax;
tlc_input_sweep tlc_input_accumulate; /* residual += gradient; returns the largest |residual| */
#endif
