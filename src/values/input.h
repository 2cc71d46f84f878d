/* SPDX-License-Identifier: MIT
 *
 * What is to be sent, x = residual + gradient (the gradient alone without error feedback), for gradients of any dtype
 * and alignment, and what is left of it afterwards.
 */
#ifndef TLC_FEEDBACK_H
#define TLC_FEEDBACK_H

#include "dtype.h"

typedef struct tlc_input {
    const tlc_kernels *k;
    tlc_dtype dtype;
    const uint8_t *grad; /* NULL: x is the residual alone */
    float *residual;     /* NULL: no error feedback; not both NULL */
} tlc_input;

/* Gradient values at .. at + count as floats: in place where that can be, else converted into buf. NULL without a
 * gradient. */
const float *tlc_input_floats(const tlc_input *in, size_t at, size_t count, float *buf);

/* The largest |x| of a range as bits, as the kernel absmax. */
uint32_t tlc_input_absmax(const tlc_input *in, size_t at, size_t count);

/* residual += gradient over a range; the maximum of the new residual. */
uint32_t tlc_input_accumulate(const tlc_input *in, size_t at, size_t count);

/* buf[i] = x for count values, where there is a residual. */
void tlc_input_wanted(const tlc_input *in, size_t at, size_t count, float *buf);

/* x for count values: in place where it lies in memory as floats, else made in buf. */
const float *tlc_input_values(const tlc_input *in, size_t at, size_t count, float *buf);

/* residual = wanted - sent over a range, for stages that do not settle it themselves. */
void tlc_input_settle(const tlc_input *in, size_t at, size_t count, const float *wanted, const float *sent);
#endif
