/* SPDX-License-Identifier: MIT
 *
 * Which sweeps a compression makes. tlc_plan_of decides, encode.c carries the plan out.
 *
 * A failed call must change nothing. So before the first byte or residual is written, one sweep over the whole tensor
 * finds the largest magnitude of x = residual + gradient. It shows every NaN and infinity, and whether a scale
 * overflows (the maximum of a block is never larger). With assume_finite the caller has checked the values, so the
 * first sweep may write.
 */
#ifndef TLC_PLAN_H
#define TLC_PLAN_H

#include "../stages/stage.h"

#define TLC_KEPT_MAX 1024 /* the first sweep keeps the maxima of blocks, on the stack, if there are at most 1024 */

/* What a plan depends on. */
typedef struct tlc_plan_facts {
    size_t blocks;    /* 0: not blocked */
    int has_gradient; /* if not, the residual alone is sent */
    int has_residual; /* error feedback */
    int assume_finite;
    int exact;           /* of the quantizer */
    tlc_chooses chooses; /* of the quantizer */
} tlc_plan_facts;

/* The sweep over all values of the tensor that is made first. */
typedef enum tlc_first_sweep {
    TLC_FIRST_NONE,
    TLC_FIRST_MAX,   /* finds the maximum; writes nothing */
    TLC_FIRST_ADD,   /* residual += gradient; finds the maximum */
    TLC_FIRST_CHOOSE /* choose() of the quantizer, which finds the maximum too */
} tlc_first_sweep;

/* Where the maximum of a unit comes from. */
typedef enum tlc_unit_max {
    TLC_MAX_NONE,  /* it is not needed */
    TLC_MAX_FIRST, /* from the first sweep: that of the tensor, or if maxima are kept that of the block */
    TLC_MAX_ADD,   /* from the addition of gradient and residual of this unit */
    TLC_MAX_SWEEP, /* from another sweep over this unit */
    TLC_MAX_CHOOSE /* from choose() of the quantizer */
} tlc_unit_max;

typedef struct tlc_plan {
    tlc_first_sweep first;
    int keep_maxima; /* the first sweep keeps the maximum of each block */
    int add;         /* after it, residual += gradient in each unit */
    tlc_unit_max max;
} tlc_plan;

tlc_plan tlc_plan_of(const tlc_plan_facts *facts);
#endif
