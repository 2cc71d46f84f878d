/* SPDX-License-Identifier: MIT
 *
 * Where decoded values go: they are written in any dtype, added with a weight, used as a mask, or counted. All decoders
 * end here, with symbols, with values, or with members.
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
    int bypass;        /* WRITE: the output is so large that stores should bypass the caches */
    int is_symbols;    /* ADD: values are symbols times a scale. A NaN in the sum stays that NaN, made quiet */
    int has_zero;      /* ADD: where the value is 0, the sum keeps its bits */
    uint64_t *nonzero; /* COUNT */
} tlc_output;

/* The address of value `at`, if values are written as floats; else NULL. */
static inline float *tlc_output_in_place(const tlc_output *o, size_t at)
{
    return o->mode == TLC_OUTPUT_WRITE && tlc_is_floats(o->dtype, o->out) ? (float *)o->out + at : NULL;
}

/* Outputs values at .. at + count - 1 of the tensor. */
void tlc_output_values(const tlc_output *o, size_t at, size_t count, const float *values);

/* The same for count <= TLC_CHUNK symbols times scale. */
void tlc_output_symbols(const tlc_output *o, size_t at, size_t count, const int8_t *q, float scale);

/* The same for count <= TLC_CHUNK values. Those in the mask are members, the others are 0. values are the floats of the
 * members, `have` or more of them, in the byte order of the machine; they need no alignment. sparse: there are so few
 * members that vectors do not pay. Returns how many members there are. */
size_t tlc_output_members(const tlc_output *o, size_t at, size_t count, const uint64_t *mask, const void *values,
                          size_t have, int sparse);

/* Outputs the members of a part of a unit by their positions, which come in batches and in rising order. All other
 * values of the part are 0. */
typedef struct tlc_scatter {
    const tlc_output *o;
    size_t first, end; /* the index of the unit's first value; the end of the part, in the unit */
    size_t filled;     /* WRITE in place: all values before this one are written */
    size_t window;     /* WRITE to another dtype: the index of values[0] */
    float values[TLC_CHUNK];
} tlc_scatter;

void tlc_scatter_begin(tlc_scatter *s, const tlc_output *o, size_t first, size_t from, size_t to);
void tlc_scatter_batch(tlc_scatter *s, const size_t *index, const float *value, size_t count);
void tlc_scatter_end(tlc_scatter *s);
#endif
