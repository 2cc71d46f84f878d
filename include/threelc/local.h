/* SPDX-License-Identifier: MIT
 *
 * Local steps: machines train alone for a while, then exchange the changes of their weights. DiLoCo (Douillard et al.,
 * 2023), federated averaging (McMahan et al., 2017), SBC's Algorithm 1 (Sattler et al., 2018), SparseLoCo (Sarfi et
 * al., 2025) and the error reset of CSER (Xie et al., 2020) are settings of it. This is what comes before and after an
 * exchange of threelc/exchange.h:
 *
 *   some local steps, from the weights that the last round left
 *   tlc_local_change        change = weights - those of the start of the round
 *   push ... pull           changes in place of gradients; their means, the same bits on all machines
 *   `_residual_scale`       where what was not sent fades (SparseLoCo: 0.95)
 *   tlc_local_outer         the common model moves by the mean, the same bits on all machines
 *   tlc_local_start         weights = common model + error_reset * residual: the next round begins
 *
 * Call tlc_local_start first of all, with the residual of a state, if one was loaded. A round that failed
 * (TLC_ERR_STEP) has no outer step: tlc_local_start with mix 0 brings all machines back to its start. At the end of a
 * training tlc_local_start with error_reset 0 leaves the common model. To exchange while local steps go on, call
 * tlc_local_outer and tlc_local_start some steps after tlc_local_change, with mix.
 *
 * All memory is the caller's, who saves common model and momentum with the state of the exchange. A call computes each
 * value by itself, so pieces of a tensor may be computed by several threads.
 * Arithmetic is binary32. Where a comment says a * b + c, it is rounded once (as fmaf does), on every machine; else
 * each operation is rounded. These are the bits of threelc.torch.LocalSteps with torch.optim.SGD on CPUs with fused
 * multiply-add, but for the sign of zeros.
 * Units, buffers, structs, float mode and failure are as in threelc/threelc.h.
 */
#ifndef THREELC_LOCAL_H
#define THREELC_LOCAL_H

#include <threelc/threelc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start from tlc_local_config_init. All machines have equal ones. The defaults are federated averaging with error
 * reset; DiLoCo has rate 0.7, momentum 0.9 and nesterov 1. */
typedef struct tlc_local_config {
    size_t struct_size;
    float rate;        /* of the outer step; finite. Default 1: the mean change is added as it is */
    float momentum;    /* of the outer step, 0 to below 1; 0: none */
    int nesterov;      /* 1: Nesterov momentum */
    float error_reset; /* how much of what a machine did not send stays in its weights, 0 to 1. Default 1: all, so it
                          does not do it again (CSER, section 3). 0: it only joins the next change (error feedback) */
    float mix; /* 0 to below 1: weights become mix * local + (1 - mix) * those of the start (Streaming DiLoCo) */
} tlc_local_config;
TLC_API tlc_status tlc_local_config_init(tlc_local_config *cfg, size_t struct_size);

/* A tensor, or a piece of one. Start from tlc_local_tensor_init. Its arrays must not overlap. */
typedef struct tlc_local_tensor {
    size_t struct_size;
    size_t n;              /* values */
    float *common;         /* the model that all machines have in common */
    float *momentum;       /* of the outer step, at first 0; NULL is allowed where that has none */
    const float *residual; /* of the pushes: the array that tlc_tensor has. NULL: its codec keeps none */
    void *weights;         /* of this machine: n values of dtype */
    tlc_dtype dtype; /* of weights: TLC_F32, the default, TLC_F16 or TLC_BF16. The common model is rounded to it */
} tlc_local_tensor;
TLC_API tlc_status tlc_local_tensor_init(tlc_local_tensor *tensor, size_t struct_size);

/* change = weights - start, with start = error_reset * residual + common, rounded to dtype. change: n floats, which are
 * to be pushed. Nothing else is written. Failures of all three: TLC_ERR_PARAM: a bad field, or NULL.
 * TLC_ERR_UNSUPPORTED: the build breaks the float rules. */
TLC_API tlc_status tlc_local_change(const tlc_local_config *cfg, const tlc_local_tensor *tensor, float *change);

/* The outer step, which is that of SGD: momentum = (momentum * cfg->momentum) + mean, rounded twice; then
 * common = rate * move + common, where move is momentum, or with nesterov cfg->momentum * momentum + mean, or without a
 * momentum the mean. mean: n floats, as pull gave them. Weights and residual are not used. */
TLC_API tlc_status tlc_local_outer(const tlc_local_config *cfg, const tlc_local_tensor *tensor, const float *mean);

/* weights = start (tlc_local_change). With mix: start + mix * (weights - start), below 0.5; from there on
 * weights - (1 - mix) * (weights - start). */
TLC_API tlc_status tlc_local_start(const tlc_local_config *cfg, const tlc_local_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
