/* SPDX-License-Identifier: MIT
 *
 * Local steps: changes of weights, the outer step, and where a round starts. Values are computed a chunk at a time.
 */
#include "../common/sizes.h"
#include "../common/structs.h"
#include "../values/dtype.h"
#include <threelc/local.h>

tlc_status tlc_local_config_init(tlc_local_config *cfg, size_t struct_size)
{
    const tlc_local_config defaults = {.rate = 1, .error_reset = 1};

    return tlc_init(cfg, struct_size, &defaults, sizeof defaults);
}

tlc_status tlc_local_tensor_init(tlc_local_tensor *tensor, size_t struct_size)
{
    const tlc_local_tensor defaults = {.dtype = TLC_F32};

    return tlc_init(tensor, struct_size, &defaults, sizeof defaults);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* What a call works on, and the caller's float mode. */
typedef struct local {
    tlc_local_config cfg;
    tlc_local_tensor t;
    const tlc_kernels *k;
    tlc_float_mode mode;
} local;

/* Of numbers that are not NaN; the bits of those from 0 on have their order. */
static int is_from_0(float x, float below)
{
    return tlc_float_bits(x) < tlc_float_bits(below);
}

static int config_valid(const tlc_local_config *c)
{
    return tlc_finite(c->rate) && is_from_0(c->momentum, 1) && is_from_0(c->mix, 1) &&
           (is_from_0(c->error_reset, 1) || tlc_float_bits(c->error_reset) == tlc_float_bits(1)) &&
           (c->nesterov == 0 || (c->nesterov == 1 && tlc_float_bits(c->momentum)));
}

/* Takes the arguments, and enters the float mode. array: the third argument of a call that has one. */
static tlc_status begin(local *l, const tlc_local_config *cfg, const tlc_local_tensor *tensor, const void *array)
{
    *l = (local){.k = tlc_kernels_for(TLC_ISA_AUTO)};
    (void)tlc_local_config_init(&l->cfg, sizeof l->cfg);
    (void)tlc_local_tensor_init(&l->t, sizeof l->t);
    if (!cfg || !tensor || !tlc_import(&l->cfg, sizeof l->cfg, cfg) || !tlc_import(&l->t, sizeof l->t, tensor))
        return TLC_ERR_PARAM;
    if (!config_valid(&l->cfg) || !tlc_dtype_valid(l->t.dtype) || (l->t.n && (!array || !l->t.common)))
        return TLC_ERR_PARAM;
    if (!l->k)
        return TLC_ERR_UNSUPPORTED;
    l->mode = tlc_float_enter();
    return TLC_OK;
}

/* ---- arithmetic -------------------------------------------------------------------------------------------------- */

/* a * b + c, rounded once. The product is exact in binary64. Its sum with c is rounded to odd: the last bit tells that
 * something is missing, so the second rounding, to a number with far fewer bits, is that of the exact sum. */
static float fused(float a, float b, float c)
{
    const double product = (double)a * b, sum = product + c, part = sum - product;
    const double lost = (product - (sum - part)) + (c - part); /* exact; a NaN if the sum is not finite */
    double odd = sum;
    uint64_t bits;

    memcpy(&bits, &sum, sizeof bits);
    if ((lost > 0 || lost < 0) && !(bits & 1)) {
        bits += (lost > 0) == (sum > 0) ? 1 : UINT64_MAX;
        memcpy(&odd, &bits, sizeof odd);
    }
    return (float)odd;
}

/* The start of a round, of `count` values from `at` on, not yet rounded to the dtype. */
static void start_of(const local *l, size_t at, size_t count, float *start)
{
    const float share = l->cfg.error_reset, *residual = tlc_float_bits(share) ? l->t.residual : NULL;

    for (size_t i = 0; i < count; i++)
        start[i] = residual ? fused(residual[at + i], share, l->t.common[at + i]) : l->t.common[at + i];
}

static void *weights_at(const local *l, size_t at)
{
    return (uint8_t *)l->t.weights + at * tlc_dtype_size(l->t.dtype);
}

static void move_by(const local *l, const float *mean, size_t at)
{
    const float m = l->cfg.momentum;
    float move = mean[at];

    if (tlc_float_bits(m)) {
        const float kept = l->t.momentum[at] * m;
        l->t.momentum[at] = kept + mean[at];
        move = l->cfg.nesterov ? fused(l->t.momentum[at], m, mean[at]) : l->t.momentum[at];
    }
    l->t.common[at] = fused(move, l->cfg.rate, l->t.common[at]);
}

static float mixed(float start, float weight, float mix)
{
    const float way = weight - start;

    return mix < 0.5f ? fused(way, mix, start) : fused(-way, 1 - mix, weight);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

tlc_status tlc_local_change(const tlc_local_config *cfg, const tlc_local_tensor *tensor, float *change)
{
    float start[TLC_CHUNK];
    uint8_t rounded[TLC_CHUNK * sizeof(float)];
    local l;
    tlc_status status = begin(&l, cfg, tensor, change && tensor ? tensor->weights : NULL);

    if (status)
        return status;
    for (size_t at = 0, count; at < l.t.n; at += count) {
        count = tlc_smaller(l.t.n - at, TLC_CHUNK);
        start_of(&l, at, count, start);
        tlc_narrow(l.k, start, count, l.t.dtype, rounded);
        tlc_widen(l.k, l.t.dtype, rounded, count, start);
        tlc_widen(l.k, l.t.dtype, weights_at(&l, at), count, change + at);
        for (size_t i = 0; i < count; i++)
            change[at + i] -= start[i];
    }
    tlc_float_leave(l.mode);
    return TLC_OK;
}

tlc_status tlc_local_outer(const tlc_local_config *cfg, const tlc_local_tensor *tensor, const float *mean)
{
    local l;
    tlc_status status = begin(&l, cfg, tensor, mean);

    if (status)
        return status;
    if (tlc_float_bits(l.cfg.momentum) && l.t.n && !l.t.momentum)
        status = TLC_ERR_PARAM;
    for (size_t i = 0; !status && i < l.t.n; i++)
        move_by(&l, mean, i);
    tlc_float_leave(l.mode);
    return status;
}

tlc_status tlc_local_start(const tlc_local_config *cfg, const tlc_local_tensor *tensor)
{
    float start[TLC_CHUNK], weights[TLC_CHUNK];
    local l;
    tlc_status status = begin(&l, cfg, tensor, tensor ? tensor->weights : NULL);

    if (status)
        return status;
    for (size_t at = 0, count; at < l.t.n; at += count) {
        count = tlc_smaller(l.t.n - at, TLC_CHUNK);
        start_of(&l, at, count, start);
        if (tlc_float_bits(l.cfg.mix)) {
            tlc_widen(l.k, l.t.dtype, weights_at(&l, at), count, weights);
            for (size_t i = 0; i < count; i++)
                start[i] = mixed(start[i], weights[i], l.cfg.mix);
        }
        tlc_narrow(l.k, start, count, l.t.dtype, weights_at(&l, at));
    }
    tlc_float_leave(l.mode);
    return TLC_OK;
}
