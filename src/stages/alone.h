/* SPDX-License-Identifier: MIT
 *
 * Stages alone, over the caller's arrays: a unit that is not part of a frame.
 */
#ifndef TLC_ALONE_H
#define TLC_ALONE_H

#include "stage.h"

typedef struct tlc_alone {
    tlc_unit unit;
    tlc_work work;
    tlc_codec codec;
    tlc_sink sink;
} tlc_alone;

/* Makes and prepares a unit of the n values x for a stage with these parameters (NULL: it has none) and random words by
 * seed and step; residual, if not NULL, gets x (it may be x) and then what is not sent. TLC_ERR_PARAM: a parameter out of
 * its range; TLC_ERR_NONFINITE. The caller has entered the float mode. */
tlc_status tlc_alone_forward(tlc_alone *a, const tlc_stage *stage, const double *params, const float *x, size_t n,
                             uint64_t seed, uint64_t step, float *residual);

/* The payload of a prepared unit, without its head, into room for the largest one; returns its length. */
size_t tlc_alone_payload(tlc_alone *a, void *dst);

/* Both for stages whose payload is all there is, from x to dst; scratch is what the coder asks for. TLC_ERR_PARAM too for
 * pointers that are missing. */
tlc_status tlc_alone_encode(const tlc_stage *stage, const double *params, const float *x, size_t n, uint64_t seed,
                            uint64_t step, uint64_t *scratch, void *dst, size_t cap, float *residual, size_t *written);

/* And back, from any bytes: TLC_ERR_CORRUPT. */
tlc_status tlc_alone_decode(const tlc_stage *stage, const double *params, const void *src, size_t len, float *out,
                            size_t n);

/* A unit that decodes into the n values out. */
void tlc_alone_backward(tlc_alone *a, const tlc_stage *stage, const double *params, float *out, size_t n);
#endif
