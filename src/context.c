/* SPDX-License-Identifier: MIT */
#include "context.h"
#include "coding/bounds.h"
#include "coding/ranges.h"
#include "common/sizes.h"
#include "common/structs.h"
#include <stdlib.h>

#define ALIGNMENT 64 /* of the residual that a context owns: a cache line */

tlc_status tlc_config_init(tlc_config *cfg, size_t struct_size)
{
    tlc_config defaults = {.struct_size = struct_size, .codec = "3lc", .feedback = -1};

    if (!cfg || struct_size < sizeof cfg->struct_size)
        return TLC_ERR_PARAM;
    memset(cfg, 0, struct_size);
    memcpy(cfg, &defaults, struct_size < sizeof defaults ? struct_size : sizeof defaults);
    return TLC_OK;
}

static void *default_alloc(void *opaque, size_t size)
{
    (void)opaque;
    return malloc(size);
}

static void default_free(void *opaque, void *ptr)
{
    (void)opaque;
    free(ptr);
}

tlc_allocator tlc_allocator_of(const tlc_allocator *given)
{
    return given->alloc ? *given : (tlc_allocator){default_alloc, default_free, NULL};
}

/* Checks a configuration, except its codecs. */
static tlc_status check_config(const tlc_config *c)
{
    if (!c->codec || !tlc_dtype_valid(c->dtype) || c->feedback < -1 || c->feedback > 1 || c->checksum < 0 ||
        c->checksum > 1 || c->assume_finite < 0 || c->assume_finite > 1 || !c->alloc.alloc != !c->alloc.free ||
        (uintptr_t)c->residual % _Alignof(float))
        return TLC_ERR_PARAM;
    if ((int)c->isa < TLC_ISA_AUTO || c->isa > TLC_ISA_NEON)
        return TLC_ERR_PARAM;
    return tlc_kernels_for(c->isa) ? TLC_OK : TLC_ERR_UNSUPPORTED;
}

/* Parses a codec string. *bound: the largest frame, *scratch: the scratch memory that it needs. */
static tlc_status room_for(const tlc_ctx *ctx, const char *text, size_t len, tlc_codec *codec, size_t *bound,
                           size_t *scratch)
{
    size_t tasks = ctx->parallel.run ? TLC_RANGES_MAX : 1;
    tlc_status status = tlc_codec_parse(codec, text, len, NULL);

    if (!status)
        status = tlc_frame_bound(codec, ctx->dtype, ctx->checksum, ctx->n, bound);
    return status ? status : tlc_scratch_size(codec, ctx->n, tasks, scratch);
}

/* Sets the codec, and the sizes that it and the reserved codecs need. */
static tlc_status resolve_codecs(tlc_ctx *ctx, const tlc_config *c)
{
    tlc_status status = room_for(ctx, c->codec, strlen(c->codec), &ctx->codec, &ctx->bound, &ctx->scratch_size);

    for (const char *at = c->reserve && *c->reserve ? c->reserve : NULL; !status && at;) {
        size_t len = strcspn(at, ";"), bound, scratch;
        tlc_codec codec;

        status = room_for(ctx, at, len, &codec, &bound, &scratch);
        if (status)
            break;
        ctx->bound = bound > ctx->bound ? bound : ctx->bound;
        ctx->scratch_size = scratch > ctx->scratch_size ? scratch : ctx->scratch_size;
        at = at[len] ? at + len + 1 : NULL;
    }
    return status;
}

/* Takes `size` bytes, aligned to ALIGNMENT, from *at on, and moves *at behind them. */
static void *take(char **at, size_t size)
{
    uintptr_t begin = (uintptr_t)*at, aligned = (begin + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *taken = *at + (aligned - begin);

    *at = taken + size;
    return taken;
}

tlc_status tlc_create(tlc_ctx **out, const tlc_config *cfg, size_t n)
{
    tlc_ctx ctx = {.n = n}, *made;
    tlc_config c;
    uint64_t size = sizeof ctx, residual;
    tlc_status status;

    if (!out)
        return TLC_ERR_PARAM;
    (void)tlc_config_init(&c, sizeof c);
    if (cfg && !tlc_import(&c, sizeof c, cfg))
        return TLC_ERR_PARAM;
    status = check_config(&c);
    ctx.dtype = c.dtype;
    ctx.checksum = c.checksum;
    ctx.parallel = c.parallel;
    if (!status)
        status = resolve_codecs(&ctx, &c);
    if (status)
        return status;
    ctx.feedback = c.feedback >= 0 ? c.feedback : ctx.codec.quantizer->quantize->feedback;
    if (c.residual && !ctx.feedback)
        return TLC_ERR_PARAM;
    residual = ctx.feedback ? tlc_product(n, sizeof(float)) : 0; /* the caller's must not overflow, either */
    if (ctx.feedback && !c.residual)
        size = tlc_sum(size, tlc_sum(ALIGNMENT, residual));
    if (ctx.scratch_size)
        size = tlc_sum(size, tlc_sum(ALIGNMENT, ctx.scratch_size));
    if (residual >= SIZE_MAX || size >= SIZE_MAX)
        return TLC_ERR_SIZE;
    ctx.kernels = tlc_kernels_for(c.isa);
    ctx.assume_finite = c.assume_finite;
    ctx.seed = c.seed;
    ctx.alloc = tlc_allocator_of(&c.alloc);
    memcpy(ctx.codec_text, c.codec, strlen(c.codec) + 1);
    made = ctx.alloc.alloc(ctx.alloc.opaque, (size_t)size);
    if (!made)
        return TLC_ERR_NOMEM;
    char *at = (char *)(made + 1);
    ctx.residual = c.residual;
    if (ctx.feedback && !c.residual)
        ctx.residual = memset(take(&at, n * sizeof(float)), 0, n * sizeof(float));
    if (ctx.scratch_size)
        ctx.scratch = take(&at, ctx.scratch_size);
    *made = ctx;
    *out = made;
    return TLC_OK;
}

void tlc_destroy(tlc_ctx *ctx)
{
    if (ctx)
        ctx->alloc.free(ctx->alloc.opaque, ctx);
}

size_t tlc_bound(const tlc_ctx *ctx)
{
    return ctx ? ctx->bound : 0;
}

/* Parses a codec that the context is to have. */
static tlc_status parse_fitting(const tlc_ctx *ctx, const char *codec, tlc_codec *parsed)
{
    size_t bound, scratch;
    tlc_status status = room_for(ctx, codec, strlen(codec), parsed, &bound, &scratch);

    if (status == TLC_ERR_PARAM)
        return status;
    return status || bound > ctx->bound || scratch > ctx->scratch_size ? TLC_ERR_CAPACITY : TLC_OK;
}

tlc_status tlc_codec_fits(const tlc_ctx *ctx, const char *codec)
{
    tlc_codec parsed;
    return parse_fitting(ctx, codec, &parsed);
}

tlc_status tlc_set_codec(tlc_ctx *ctx, const char *codec)
{
    tlc_codec parsed;
    tlc_status status;

    if (!ctx || !codec)
        return TLC_ERR_PARAM;
    status = parse_fitting(ctx, codec, &parsed);
    if (status)
        return status;
    ctx->codec = parsed;
    memmove(ctx->codec_text, codec, strlen(codec) + 1); /* codec may be codec_text itself */
    return TLC_OK;
}

float *tlc_residual(tlc_ctx *ctx)
{
    return ctx ? ctx->residual : NULL;
}

tlc_status tlc_residual_scale(tlc_ctx *ctx, float factor)
{
    tlc_status status = TLC_ERR_NONFINITE;

    if (!ctx || !tlc_finite(factor))
        return TLC_ERR_PARAM;
    if (!ctx->feedback)
        return TLC_ERR_UNSUPPORTED;
    tlc_float_mode mode = tlc_float_enter();
    uint32_t max = ctx->kernels->absmax(NULL, ctx->residual, ctx->n);
    if (max < TLC_F32_INF && tlc_finite(tlc_bits_float(max) * factor)) {
        for (size_t i = 0; i < ctx->n; i++)
            ctx->residual[i] *= factor;
        status = TLC_OK;
    }
    tlc_float_leave(mode);
    return status;
}

void tlc_reset(tlc_ctx *ctx)
{
    if (!ctx)
        return;
    ctx->step = 0;
    if (ctx->residual && ctx->n)
        memset(ctx->residual, 0, ctx->n * sizeof(float));
}

tlc_isa tlc_isa_used(const tlc_ctx *ctx)
{
    return ctx ? ctx->kernels->isa : TLC_ISA_AUTO;
}
