/* SPDX-License-Identifier: MIT
 *
 * Arrays of all values of a rank: gradients, residuals, results. Tensor t begins at tensor[t].at; the gaps around
 * tensors are filled with a pattern that nobody may change.
 */
#ifndef TLC_SIM_VALUES_H
#define TLC_SIM_VALUES_H

#include "run.h"

float *new_values(run *r); /* zeros, and the gaps */

float *new_f32_results(run *r); /* all bytes have the pattern */

/* Arrays of another dtype. They have no alignment. All bytes have the pattern. */
uint8_t *new_results(run *r, tlc_dtype dtype);
void clear_results(const run *r, tlc_dtype dtype, uint8_t *results);
int is_cleared(const run *r, tlc_dtype dtype, const uint8_t *results, size_t first, size_t n);
void check_gaps(run *r, const void *values, size_t size, const char *what);
size_t results_size(const run *r, tlc_dtype dtype);

/* Pointers to the tensors of an array. */
void point_at(const run *r, const void *values, size_t size, const void **tensors);

void narrow(const float *from, tlc_dtype dtype, void *to, size_t n);

/* The gradient of a rank in a step: in dtype to `raw`, and widened. */
typedef struct gradient {
    int absent;        /* not in the round */
    int bad;           /* has a value that is not finite */
    size_t bad_tensor; /* the one tensor that has it */
    double weight;
} gradient;
gradient make_gradient(run *r, uint32_t rank, uint64_t step, const uint32_t *only, tlc_dtype dtype, uint8_t *raw,
                       float *wide);

#endif
