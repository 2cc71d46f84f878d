/* SPDX-License-Identifier: MIT */
#include "warm.h"
#include "../lib/channel.h"
#include "../lib/explain.h"
#include <stdlib.h>
#include <string.h>

enum { STEPS = 50 };

static tlc_status run(tlc_ctx *ctx, const tensor *t, unsigned char *frame)
{
    tlc_status status = TLC_OK;
    size_t len;

    for (size_t step = 0; !status && step < STEPS; step++)
        status = tlc_compress(ctx, tensor_step(t, step), frame, tlc_bound(ctx), &len);
    return status;
}

static tlc_status warm_tensor(tensor *t, const tlc_config *cfg)
{
    unsigned char *frame = NULL;
    tlc_ctx *ctx = NULL;
    tlc_status status = tlc_create(&ctx, cfg, t->n);

    free(t->residual);
    t->residual = NULL;
    if (!status && tlc_residual(ctx)) {
        t->residual = channel_buffer(t->n * sizeof(float));
        frame = channel_buffer(tlc_bound(ctx));
        status = t->residual && frame ? run(ctx, t, frame) : TLC_ERR_NOMEM;
        if (!status)
            memcpy(t->residual, tlc_residual(ctx), t->n * sizeof(float));
    }
    free(frame);
    tlc_destroy(ctx);
    return status;
}

bool warm_residuals(source *s, const char *codec, tlc_isa isa, uint64_t seed, char *why)
{
    tlc_status status = TLC_OK;
    tlc_config cfg;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = codec;
    cfg.isa = isa;
    cfg.seed = seed;
    for (size_t i = 0; !status && i < s->count; i++)
        status = warm_tensor(&s->tensors[i], &cfg);
    return !status || explain(why, "%s: %s", codec, tlc_status_string(status));
}
