/* SPDX-License-Identifier: MIT
 *
 * Sums of 16-bit floats for MPI_Allreduce.
 */
#ifndef MPI_HALVES_H
#define MPI_HALVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Round to nearest, ties to even; beyond 65504 infinite. f16c: with the instructions of the CPU. */
void halves_narrow(const float *in, size_t n, uint16_t *out, bool f16c);
void halves_widen(const uint16_t *in, size_t n, float *out, bool f16c);

/* Whether this CPU has the instructions. */
bool halves_have_f16c(void);

/* sum[i] += in[i] */
void halves_add(const uint16_t *in, uint16_t *sum, size_t n, bool f16c);
#endif
