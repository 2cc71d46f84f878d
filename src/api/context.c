/* SPDX-License-Identifier: MIT */
#include "context.h"
#include "../codec/arguments.h"
#include "../frames/bounds.h"
#include "../coding/ranges.h"
#include "../common/sizes.h"
#include "../common/structs.h"
#include <stdlib.h>

#define ALIGNMENT 64 /* of the residual that a context owns: a cache line */

tlc_status tlc_config_init(tlc_config *cfg, size_t struct_size)
{
    const tlc_config defaults = {.codec = "3lc", .feedback = -1};

    return tlc_init(cfg, struct_size, &defaults, sizeof defaults);
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

tlc_status tlc_allocator_check(const tlc_allocator *given, tlc_text *w)
{
    if (!given->alloc != !given->free)
        return TLC_FAIL(w, TLC_ERR_PARAM, "alloc has %s, but no %s: set both, or none", given->alloc ? "alloc" : "free",
                        given->alloc ? "free" : "alloc");
    return TLC_OK;
}

static tlc_status check_flags(const tlc_config *c, tlc_text *w)
{
    tlc_status status = tlc_flag_check("checksum", c->checksum, w);
    return status ? status : tlc_flag_check("assume_finite", c->assume_finite, w);
}

/* Checks a configuration, except its codecs. */
static tlc_status check_config(const tlc_config *c, tlc_text *w)
{
    tlc_status status;

    if (!c->codec)
        return TLC_FAIL(w, TLC_ERR_PARAM, "codec is NULL: tlc_config_init sets the default");
    status = tlc_dtype_check(c->dtype, w);
    if (status)
        return status;
    if (c->feedback < -1 || c->feedback > 1)
        return TLC_FAIL(w, TLC_ERR_PARAM, "feedback is %d: -1, 0 or 1", c->feedback);
    status = check_flags(c, w);
    if (status)
        return status;
    status = tlc_allocator_check(&c->alloc, w);
    if (status)
        return status;
    if ((uintptr_t)c->residual % _Alignof(float))
        return TLC_FAIL(w, TLC_ERR_PARAM, "residual is not aligned to %zu bytes", _Alignof(float));
    return tlc_isa_check(c->isa, w);
}

/* What a codec needs. */
typedef struct room {
    tlc_codec codec;
    size_t bound, scratch;
} room;

/* Parses a codec string. what: its name in a sentence. */
static tlc_status room_for(const tlc_ctx *ctx, const char *what, const char *text, size_t len, room *r, tlc_text *w)
{
    size_t tasks = ctx->parallel.run ? TLC_RANGES_MAX : 1;
    tlc_status status = tlc_codec_read_part(&r->codec, what, text, len, w);

    if (status)
        return status;
    status = tlc_frame_bound(&r->codec, ctx->dtype, ctx->checksum, ctx->n, &r->bound);
    if (!status)
        status = tlc_scratch_size(&r->codec, ctx->n, tasks, &r->scratch);
    if (status) {
        tlc_codec_say(w, what, text, len);
        tlc_text_format(w, ": what %zu values need has more bytes than the address space", ctx->n);
    }
    return status;
}

/* Sets the codec, and the sizes that it and the reserved codecs need. */
static tlc_status resolve_codecs(tlc_ctx *ctx, const tlc_config *c, tlc_text *w)
{
    room r;
    tlc_status status = room_for(ctx, "codec", c->codec, strlen(c->codec), &r, w);

    if (status)
        return status;
    ctx->codec = r.codec;
    ctx->bound = r.bound;
    ctx->scratch_size = r.scratch;
    for (const char *at = c->reserve && *c->reserve ? c->reserve : NULL; at;) {
        size_t len = strcspn(at, ";");

        status = room_for(ctx, "reserve: codec", at, len, &r, w);
        if (status)
            return status;
        ctx->bound = r.bound > ctx->bound ? r.bound : ctx->bound;
        ctx->scratch_size = r.scratch > ctx->scratch_size ? r.scratch : ctx->scratch_size;
        at = at[len] ? at + len + 1 : NULL;
    }
    return TLC_OK;
}

/* Takes `size` bytes, aligned to ALIGNMENT, from *at on, and moves *at past them. */
static void *take(char **at, size_t size)
{
    uintptr_t begin = (uintptr_t)*at, aligned = (begin + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    char *taken = *at + (aligned - begin);

    *at = taken + size;
    return taken;
}

/* Fills in a context except its memory, and says how many bytes that must have. */
static tlc_status plan_context(tlc_ctx *ctx, const tlc_config *c, size_t *bytes, tlc_text *w)
{
    uint64_t size = tlc_sum(sizeof *ctx, TLC_MESSAGE_SIZE), residual;
    tlc_status status = check_config(c, w);

    ctx->dtype = c->dtype;
    ctx->checksum = c->checksum;
    ctx->parallel = c->parallel;
    if (!status)
        status = resolve_codecs(ctx, c, w);
    if (status)
        return status;
    ctx->feedback = c->feedback >= 0 ? c->feedback : ctx->codec.quantizer->quantize->feedback;
    if (c->residual && !ctx->feedback)
        return TLC_FAIL(w, TLC_ERR_PARAM, "residual is given, but there is no error feedback: %s",
                        c->feedback ? "the codec is without it unless feedback is 1" : "feedback is 0");
    residual = ctx->feedback ? tlc_product(ctx->n, sizeof(float)) : 0; /* the caller's must not overflow, either */
    if (ctx->feedback && !c->residual)
        size = tlc_sum(size, tlc_sum(ALIGNMENT, residual));
    if (ctx->scratch_size)
        size = tlc_sum(size, tlc_sum(ALIGNMENT, ctx->scratch_size));
    if (residual >= SIZE_MAX || size >= SIZE_MAX)
        return TLC_FAIL(w, TLC_ERR_SIZE, "n is %zu: the residual has more bytes than the address space", ctx->n);
    ctx->kernels = tlc_kernels_for(c->isa);
    ctx->assume_finite = c->assume_finite;
    ctx->seed = c->seed;
    ctx->alloc = tlc_allocator_of(&c->alloc);
    ctx->residual = c->residual;
    memcpy(ctx->codec_text, c->codec, strlen(c->codec) + 1);
    *bytes = (size_t)size;
    return TLC_OK;
}

tlc_status tlc_create(tlc_ctx **out, const tlc_config *cfg, size_t n)
{
    tlc_ctx ctx = {.n = n}, *made;
    tlc_config c;
    tlc_status status;
    size_t size;

    (void)tlc_config_init(&c, sizeof c);
    if (cfg && !tlc_import(&c, sizeof c, cfg))
        return TLC_ERR_PARAM;
    tlc_text w = tlc_text_in(c.message, c.message_cap);
    if (!out)
        return TLC_FAIL(&w, TLC_ERR_PARAM, "out is NULL");
    status = plan_context(&ctx, &c, &size, &w);
    if (status)
        return status;
    made = ctx.alloc.alloc(ctx.alloc.opaque, size);
    if (!made)
        return TLC_FAIL(&w, TLC_ERR_NOMEM, "the allocator has not given %zu bytes", size);
    ctx.message = memset(made + 1, 0, TLC_MESSAGE_SIZE);
    char *at = ctx.message + TLC_MESSAGE_SIZE;
    if (ctx.feedback && !c.residual)
        ctx.residual = memset(take(&at, n * sizeof(float)), 0, n * sizeof(float));
    if (ctx.scratch_size)
        ctx.scratch = take(&at, ctx.scratch_size);
    *made = ctx;
    *out = made;
    return TLC_OK;
}

const char *tlc_last_error(const tlc_ctx *ctx)
{
    return ctx ? ctx->message : "";
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

/* The context lacks bytes that a codec needs. */
static tlc_status lacks(tlc_text *w, const tlc_ctx *ctx, const char *what, size_t needs, size_t has)
{
    return TLC_FAIL(w, TLC_ERR_CAPACITY,
                    " needs %s %zu bytes, the context with codec \"%s\" has room for %zu: name it in reserve", what,
                    needs, ctx->codec_text, has);
}

/* Parses a codec that the context is to have. what: its name in a sentence. */
static tlc_status parse_fitting(const tlc_ctx *ctx, const char *what, const char *codec, tlc_codec *parsed)
{
    tlc_text w = tlc_ctx_text(ctx);
    room r;
    tlc_status status = room_for(ctx, what, codec, strlen(codec), &r, &w);

    if (status)
        return status == TLC_ERR_PARAM ? status : TLC_ERR_CAPACITY;
    if (r.bound > ctx->bound || r.scratch > ctx->scratch_size)
        tlc_codec_say(&w, what, codec, strlen(codec));
    if (r.bound > ctx->bound)
        return lacks(&w, ctx, "frames of up to", r.bound, ctx->bound);
    if (r.scratch > ctx->scratch_size)
        return lacks(&w, ctx, "scratch memory of", r.scratch, ctx->scratch_size);
    *parsed = r.codec;
    return TLC_OK;
}

tlc_status tlc_codec_fits(const tlc_ctx *ctx, const char *codec)
{
    tlc_codec parsed;
    return parse_fitting(ctx, "codec", codec, &parsed);
}

tlc_status tlc_codec_adopt(tlc_ctx *ctx, const char *what, const char *codec)
{
    tlc_status status = parse_fitting(ctx, what, codec, &ctx->codec);

    if (!status)
        memmove(ctx->codec_text, codec, strlen(codec) + 1); /* codec may be codec_text itself */
    return status;
}

tlc_status tlc_set_codec(tlc_ctx *ctx, const char *codec)
{
    if (!ctx)
        return TLC_ERR_PARAM;
    return codec ? tlc_codec_adopt(ctx, "codec", codec) : TLC_CTX_FAIL(ctx, TLC_ERR_PARAM, "codec is NULL");
}

float *tlc_residual(tlc_ctx *ctx)
{
    return ctx ? ctx->residual : NULL;
}

/* The product of a value of the residual and factor is not finite. */
static tlc_status product_fails(const tlc_ctx *ctx, float factor)
{
    size_t i = 0;

    while (tlc_finite(ctx->residual[i] * factor))
        i++;
    return TLC_CTX_FAIL(ctx, TLC_ERR_NONFINITE, "residual[%zu] %s", i,
                        tlc_finite(ctx->residual[i]) ? "* factor is infinite" : "is not finite");
}

tlc_status tlc_residual_scale(tlc_ctx *ctx, float factor)
{
    tlc_status status = TLC_OK;

    if (!ctx)
        return TLC_ERR_PARAM;
    if (!tlc_finite(factor))
        return TLC_CTX_FAIL(ctx, TLC_ERR_PARAM, "factor is %s: a finite number", tlc_nonfinite_name(factor));
    if (!ctx->feedback)
        return TLC_CTX_FAIL(ctx, TLC_ERR_UNSUPPORTED, "the context has no residual: its feedback is 0");
    tlc_float_mode mode = tlc_float_enter();
    uint32_t max = ctx->kernels->absmax(NULL, ctx->residual, ctx->n);
    if (max >= TLC_F32_INF || !tlc_finite(tlc_bits_float(max) * factor))
        status = product_fails(ctx, factor);
    else
        for (size_t i = 0; i < ctx->n; i++)
            ctx->residual[i] *= factor;
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
