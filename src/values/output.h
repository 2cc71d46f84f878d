/* SPDX-License-Identifier: MIT
 *
 * The one way of decoded values to the caller: written in any dtype, added with a weight, used as a mask, or counted.
 * Symbols, values, and members with their positions all end here.
 */
#ifndef TLC_OUTPUT_H
#define TLC_OUTPUT_H

#include "dtype.h"

typedef enum tlc_output_mode {
    TLC_OUTPUT_WRITE,
    TLC_OUTPUT_ADD,  /* out += weight * value */
    TLC_OUTPUT_MASK, /* out = +0 where the value is not 0 */
    TLC_OUTPUT_COUNT /* *nonzero += the values that are not 0 */
} tlc_output_mode;

typedef struct tlc_output {
    const tlc_kernels *k;
    tlc_output_mode mode;
    tlc_dtype dtype;   /* WRITE; else f32 */
    void *out;         /* n values */
    float weight;      /* ADD */
    int stream;        /* WRITE: so much that it should bypass the caches */
    int is_symbols;    /* ADD: values are symbols times a scale: a NaN in the sum stays, made quiet */
    int has_zero;      /* ADD: a value 0 leaves the sum as it is */
    uint64_t *nonzero; /* COUNT */
} tlc_output;

/* Where value at is to be written as a float, or NULL if it cannot be written in place. */
static inline float *tlc_output_in_place(const tlc_output *o, size_t at)
{
    return o->mode == TLC_OUTPUT_WRITE && tlc_is_floats(o->dtype, o->out) ? (float *)o->out + at : NULL;
}

/* Values at .. at + count of the tensor. */
void tlc_output_values(const tlc_output *o, size_t at, size_t count, const float *values);

/* The same for count <= TLC_PIECE symbols times scale. */
void tlc_output_symbols(const tlc_output *o, size_t at, size_t count, const int8_t *q, float scale);

/* The same for count <= TLC_PIECE values of which those in the mask are sent and the others are 0. The next of those that
 * are sent lie in a payload, from values up to end, which belong to `left` values of the tensor. Returns where the rest of
 * them begins. */
const uint8_t *tlc_output_members(const tlc_output *o, size_t at, size_t count, const uint64_t *mask,
                                  const uint8_t *values, const uint8_t *end, size_t left);

/* Members by their positions, in rising order, a batch after the other; all other values of the unit are 0. */
typedef struct tlc_scatter {
    const tlc_output *o;
    size_t first, n; /* the unit: its first value in the tensor, how many */
    size_t filled;   /* WRITE in place: values below are 0 but for those written */
    size_t window;   /* WRITE to another dtype: where values[] begins */
    float values[TLC_PIECE];
} tlc_scatter;

void tlc_scatter_begin(tlc_scatter *s, const tlc_output *o, size_t first, size_t n);
void tlc_scatter_batch(tlc_scatter *s, const size_t *index, const float *value, size_t count);
void tlc_scatter_end(tlc_scatter *s);
#endif
