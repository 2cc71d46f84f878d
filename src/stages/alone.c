/* SPDX-License-Identifier: MIT */
#include "alone.h"
#include <threelc/stages.h>

static void fill_codec(tlc_codec *codec, const tlc_stage *stage, const double *params)
{
    *codec = (tlc_codec){.value = stage};
    for (size_t i = 0; i < stage->param_count; i++)
        codec->params[i] = params[i];
}

/* Words are given as their index, which the callers have checked. */
static int params_valid(const tlc_stage *stage, const double *params)
{
    for (size_t i = 0; i < stage->param_count; i++) {
        const tlc_param *p = &stage->params[i];
        if (!p->words && !(params[i] >= p->least && params[i] < p->below))
            return 0;
    }
    return 1;
}

tlc_status tlc_alone_forward(tlc_alone *a, const tlc_stage *stage, const double *params, const float *x, size_t n,
                             uint64_t seed, uint64_t step, float *residual)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);
    const tlc_value_ops *value = stage->value;

    if ((n && !x) || !params_valid(stage, params))
        return TLC_ERR_PARAM;
    fill_codec(&a->codec, stage, params);
    uint32_t max = k->absmax(x, NULL, n);
    tlc_status status = max < TLC_F32_INF ? TLC_OK : TLC_ERR_NONFINITE;
    if (!status && value->check)
        status = value->check(&a->codec, TLC_F32, max);
    if (status)
        return status;
    if (residual && residual != x && n)
        memcpy(residual, x, n * sizeof *x);
    a->work = (tlc_work){.seed = seed, .step = step};
    a->unit = (tlc_unit){.k = k, .codec = &a->codec, .n = n, .input = {.k = k, .residual = residual}, .work = &a->work};
    if (!residual)
        a->unit.input.grad = (const uint8_t *)x;
    if (value->measure)
        (void)value->measure(&a->unit);
    if (value->prepare && n)
        value->prepare(&a->unit, max);
    return TLC_OK;
}

size_t tlc_alone_payload(tlc_alone *a, void *dst)
{
    const tlc_coder_ops *coder = a->codec.value->coder;
    tlc_unit *u = &a->unit;

    if (!u->n)
        return 0;
    if (!coder->forward)
        return coder->finish(u, dst, 0);
    (void)coder->forward(u, 0, (size_t)coder->positions(&a->codec, u->n), dst);
    return (size_t)coder->bound(&a->codec, TLC_F32, u->n);
}

void tlc_alone_backward(tlc_alone *a, const tlc_stage *stage, const double *params, float *out, size_t n)
{
    fill_codec(&a->codec, stage, params);
    a->sink = (tlc_sink){.mode = TLC_SINK_WRITE, .dtype = TLC_F32, .out = out};
    a->unit = (tlc_unit){.k = tlc_kernels_for(TLC_ISA_AUTO), .codec = &a->codec, .n = n, .sink = &a->sink};
}

tlc_status tlc_alone_encode(const tlc_stage *stage, const double *params, const float *x, size_t n, uint64_t seed,
                            uint64_t step, uint64_t *scratch, void *dst, size_t cap, float *residual, size_t *written)
{
    tlc_alone a;

    if ((n && stage->coder->scratch && !scratch) || (cap && !dst) || !written)
        return TLC_ERR_PARAM;
    tlc_float_mode mode = tlc_float_enter();
    tlc_status status = params_valid(stage, params) ? TLC_OK : TLC_ERR_PARAM;
    fill_codec(&a.codec, stage, params);
    if (!status && n && cap < stage->coder->bound(&a.codec, TLC_F32, n))
        status = TLC_ERR_CAPACITY;
    if (!status)
        status = tlc_alone_forward(&a, stage, params, x, n, seed, step, residual);
    if (!status) {
        a.work.scratch = scratch;
        *written = tlc_alone_payload(&a, dst);
    }
    tlc_float_leave(mode);
    return status;
}

tlc_status tlc_alone_decode(const tlc_stage *stage, const double *params, const void *src, size_t len, float *out,
                            size_t n)
{
    tlc_alone a;

    if ((len && !src) || (n && !out))
        return TLC_ERR_PARAM;
    tlc_alone_backward(&a, stage, params, out, n);
    if (n ? !stage->coder->check(&a.unit, src, len) : len != 0)
        return TLC_ERR_CORRUPT;
    if (n)
        stage->coder->backward_all(&a.unit, src, len);
    return TLC_OK;
}

tlc_status tlc_philox(uint64_t seed, uint64_t step, uint64_t first, size_t n, uint32_t *words)
{
    if (n && !words)
        return TLC_ERR_PARAM;
    tlc_kernels_for(TLC_ISA_AUTO)->philox(seed, step, first, n, words);
    return TLC_OK;
}
