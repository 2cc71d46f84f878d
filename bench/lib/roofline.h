/* SPDX-License-Identifier: MIT
 *
 * Rooflines: the reads and writes of memory that a codec cannot avoid, in linear order. They have as little
 * arithmetic as possible, but every byte that is written depends on what was read. A codec that reaches the speed of
 * its roofline is limited by memory only.
 */
#ifndef BENCH_ROOFLINE_H
#define BENCH_ROOFLINE_H

#include <stddef.h>
#include <stdint.h>
#include <threelc/threelc.h>

typedef enum roofline {
    ROOFLINE_TWO_SWEEPS,    /* read g and r, maximum; then read g and r, write r and n/5 bytes */
    ROOFLINE_ASSUME_FINITE, /* read g and r, maximum, write r; then read r, write r and n/5 bytes */
    ROOFLINE_ONE_SWEEP,     /* read g and r, maximum, write r and n/5 bytes: for small blocks with assume_finite */
    ROOFLINE_NO_RESIDUAL,   /* read g, maximum; then read g, write n/5 bytes */
    ROOFLINE_WRITE,         /* read n/5 bytes, write out */
    ROOFLINE_STREAM,        /* the same with non-temporal stores */
    ROOFLINE_ADD,           /* read n/5 bytes, add to r */
    ROOFLINES
} roofline;

/* A slice of a tensor. r stays finite however often it is swept, without subnormals: each sweep subtracts 1 with the
 * sign of r, so r returns to (-1, 1). If the gradients are too large for that, it grows linearly. */
typedef struct slice {
    const float *g;
    float *r;
    float *out;     /* at a multiple of 64 */
    uint8_t *bytes; /* ceil(n/5) */
    size_t n;
} slice;

typedef uint32_t sweep(const slice *s); /* returns the maximum, or 0 */

/* A slice of a sum, and the frames that are added to it: values from .. to - 1 of n. The sweep reads the bytes of all
 * frames that belong to these values, as if values were equally long, and then writes the values. So all slices
 * together read each byte once. A frame starts at a multiple of 64; its memory ends at one. */
typedef struct sum_slice {
    const tlc_message *frames;
    size_t count;
    float *sum;
    size_t n, from, to;
} sum_slice;

typedef void sum_sweep(const sum_slice *s);

typedef struct roofline_loops {
    sweep *sweeps[ROOFLINES][2]; /* each over the whole tensor, the second after the first; NULL: there is none */
    sum_sweep *add_many;         /* reads and writes the sum */
    sum_sweep *from_zero;        /* only writes it */
    void (*copy)(void *dst, const void *src, size_t size); /* non-temporal; NULL: there is none */
} roofline_loops;

/* Slices begin at multiples of this many values, so they have whole bytes, vectors and cache lines. */
#define SLICE_UNIT 320

const roofline_loops *roofline_loops_of(tlc_isa isa); /* isa must be supported */
#endif
