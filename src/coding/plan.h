/* SPDX-License-Identifier: MIT
 *
 * What a compression sweeps over, and when. A plan is made by a pure function and then carried out by encode.c.
 *
 * How a failed call leaves everything as it was: before the first byte or residual is written, one sweep over the whole
 * tensor finds the largest magnitude of x = residual + gradient. It shows any NaN or infinity, and whether a scale
 * overflows (no block's maximum is larger). With assume_finite the caller has checked, so the first sweep may write.
 */
#ifndef TLC_PLAN_H
#define TLC_PLAN_H

#include "../stages/stage.h"

#define TLC_KEPT_MAX 1024 /* blocks whose maxima are kept from the first sweep, on the stack */

/* What is known before. */
typedef struct tlc_plan_facts {
    size_t blocks;      /* 0: not blocked */
    int has_gradient;   /* else the residual alone is sent */
    int has_residual;   /* error feedback */
    int assume_finite;
    int exact;          /* of the quantizer */
    tlc_chooses chooses; /* of the quantizer */
} tlc_plan_facts;

/* A sweep over all values of the tensor before anything else. */
typedef enum tlc_first_sweep {
    TLC_FIRST_NONE,
    TLC_FIRST_MAX,    /* reads gradient and residual for the maximum; writes nothing */
    TLC_FIRST_ADD,    /* residual += gradient, and the maximum */
    TLC_FIRST_CHOOSE  /* the quantizer's choose, which gives the maximum too */
} tlc_first_sweep;

/* Where the maximum of a unit comes from when it is encoded. */
typedef enum tlc_unit_max {
    TLC_MAX_NONE,   /* not wanted */
    TLC_MAX_FIRST,  /* the first sweep's: of the tensor, or of the block if maxima are kept */
    TLC_MAX_ADD,    /* the unit's own addition gives it */
    TLC_MAX_SWEEP,  /* another sweep over the unit */
    TLC_MAX_CHOOSE  /* the quantizer's choose gives it */
} tlc_unit_max;

typedef struct tlc_plan {
    tlc_first_sweep first;
    int keep;         /* the first sweep keeps the maximum of each block */
    int add;          /* then each unit: residual += gradient */
    tlc_unit_max max;
} tlc_plan;

tlc_plan tlc_plan_of(const tlc_plan_facts *facts);
#endif
