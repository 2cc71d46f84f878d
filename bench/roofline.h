/* SPDX-License-Identifier: MIT
 *
 * Rooflines: the passes through memory that no codec of a shape can avoid, with the least arithmetic that still makes
 * every byte depend on what was read, in linear order. What a codec's speed is of its roofline's is what its arithmetic
 * leaves of the machine's.
 */
#ifndef BENCH_ROOFLINE_H
#define BENCH_ROOFLINE_H

#include <stddef.h>
#include <stdint.h>
#include <threelc/threelc.h>

typedef enum roofline {
    ROOFLINE_TWO_SWEEPS,    /* read g and r, maximum; then read g and r, write r and n/5 bytes */
    ROOFLINE_ASSUME_FINITE, /* read g and r, maximum, write r; then read r, write r and n/5 bytes */
    ROOFLINE_ONE_SWEEP,     /* read g and r, maximum, write r and n/5 bytes: the limit of small blocks with assume_finite */
    ROOFLINE_NO_RESIDUAL,   /* read g, maximum; then read g, write n/5 bytes */
    ROOFLINE_WRITE,         /* read n/5 bytes, write out */
    ROOFLINE_STREAM,        /* the same with non-temporal stores */
    ROOFLINE_ADD,           /* read n/5 bytes, add to r */
    ROOFLINES
} roofline;

/* A slice of a tensor. r and bytes stay finite and free of subnormals however often they are swept: what is taken from r
 * is 1 with its sign, so that it returns to (-1, 1) unless the gradients drive it away, and then it grows linearly. */
typedef struct slice {
    const float *g;
    float *r;
    float *out;     /* at a multiple of 64 */
    uint8_t *bytes; /* ceil(n/5) */
    size_t n;
} slice;

typedef uint32_t sweep(const slice *s); /* returns the maximum, or 0 */

typedef struct roofline_loops {
    sweep *sweeps[ROOFLINES][2]; /* one after the other over the whole tensor; NULL: there is no second one, or none */
    void (*copy)(void *dst, const void *src, size_t size); /* non-temporal; NULL: there is none */
} roofline_loops;

/* Slices of a tensor begin at multiples of this many values: whole bytes, vectors and cache lines. */
#define SLICE_UNIT 320

const roofline_loops *roofline_loops_of(tlc_isa isa); /* isa is supported */
#endif
