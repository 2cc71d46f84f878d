/* SPDX-License-Identifier: MIT
 *
 * The state of a context as bytes, which src/docs/format.md draws.
 */
#include "../codec/arguments.h"
#include "../frames/frame.h"
#include "../common/bytes.h"
#include "context.h"
#include "../frames/formats.h"

#define STATE_VERSION 1
#define STATE_HEAD 32
#define STATE_LEAST (STATE_HEAD + TLC_CHECKSUM_SIZE)

static const char magic[4] = {'T', 'L', 'C', 'S'};

static size_t residual_size(const tlc_ctx *ctx)
{
    return ctx->feedback ? ctx->n * sizeof(float) : 0;
}

/* SIZE_MAX if the sum overflows, which a residual of the caller can cause: no buffer is large enough then. */
size_t tlc_state_size(const tlc_ctx *ctx)
{
    size_t head;

    if (!ctx)
        return 0;
    head = STATE_HEAD + strlen(ctx->codec_text) + TLC_CHECKSUM_SIZE;
    return residual_size(ctx) > SIZE_MAX - head ? SIZE_MAX : head + residual_size(ctx);
}

tlc_status tlc_state_save(const tlc_ctx *ctx, void *dst, size_t cap, size_t *written)
{
    uint8_t *p = dst;
    size_t codec, at;

    if (!ctx)
        return TLC_ERR_PARAM;
    if (!dst || !written)
        return TLC_CTX_FAIL(ctx, TLC_ERR_PARAM, "%s is NULL", dst ? "written" : "dst");
    if (cap < tlc_state_size(ctx))
        return TLC_CTX_FAIL(ctx, TLC_ERR_CAPACITY, "cap is %zu bytes, tlc_state_size is %zu", cap, tlc_state_size(ctx));
    codec = strlen(ctx->codec_text);
    memcpy(p, magic, sizeof magic);
    p[4] = STATE_VERSION;
    p[5] = (uint8_t)ctx->dtype;
    p[6] = (uint8_t)ctx->feedback;
    p[7] = (uint8_t)codec;
    tlc_store64(p + 8, ctx->n);
    tlc_store64(p + 16, ctx->seed);
    tlc_store64(p + 24, ctx->step);
    memcpy(p + STATE_HEAD, ctx->codec_text, codec);
    at = STATE_HEAD + codec;
    if (ctx->feedback && ctx->n)
        tlc_copy_le(p + at, ctx->residual, ctx->n, sizeof(float));
    at += residual_size(ctx);
    tlc_store32(p + at, tlc_checksum(p, at));
    *written = at + TLC_CHECKSUM_SIZE;
    return TLC_OK;
}

tlc_status tlc_state_explain(const void *src, size_t len, tlc_text *w)
{
    const uint8_t *p = src;

    if (len < STATE_LEAST || memcmp(p, magic, sizeof magic) != 0) {
        tlc_format_say(w, TLC_FORMAT_STATE, p, len);
        return TLC_ERR_CORRUPT;
    }
    if (p[4] != STATE_VERSION) {
        tlc_format_say(w, TLC_FORMAT_STATE, p, len);
        return TLC_ERR_VERSION;
    }
    if (tlc_load32(p + len - TLC_CHECKSUM_SIZE) != tlc_checksum(p, len - TLC_CHECKSUM_SIZE))
        return TLC_FAIL(w, TLC_ERR_CHECKSUM, "the checksum of the state does not match: it was altered or cut");
    return TLC_OK;
}

/* Is it a state of a context like this one? len: without the checksum. */
static tlc_status check_fit(const tlc_ctx *ctx, const uint8_t *p, size_t len, tlc_text *w)
{
    if (tlc_load64(p + 8) != ctx->n)
        return TLC_FAIL(w, TLC_ERR_SIZE, "the state is of %llu values, the context of %zu",
                        (unsigned long long)tlc_load64(p + 8), ctx->n);
    if (p[5] != ctx->dtype)
        return TLC_FAIL(w, TLC_ERR_PARAM, "the state is of %s gradients, the context of %s",
                        tlc_dtype_name((tlc_dtype)p[5]), tlc_dtype_name(ctx->dtype));
    if (p[6] != ctx->feedback)
        return TLC_FAIL(w, TLC_ERR_PARAM, "the state has feedback %d, the context %d", p[6], ctx->feedback);
    if (len - STATE_HEAD < p[7] || len - STATE_HEAD - p[7] != residual_size(ctx))
        return TLC_FAIL(w, TLC_ERR_CORRUPT, "the state has %zu bytes after its head, where %zu should be",
                        len - STATE_HEAD, p[7] + residual_size(ctx));
    return TLC_OK;
}

tlc_status tlc_state_load(tlc_ctx *ctx, const void *src, size_t len)
{
    const uint8_t *p = src;
    char text[TLC_CODEC_TEXT];
    tlc_status status;

    if (!ctx)
        return TLC_ERR_PARAM;
    tlc_text w = tlc_ctx_text(ctx);
    if (!src && len)
        return TLC_FAIL(&w, TLC_ERR_PARAM, "src is NULL, but len is %zu", len);
    status = tlc_state_explain(src, len, &w);
    len -= TLC_CHECKSUM_SIZE;
    if (!status)
        status = check_fit(ctx, p, len, &w);
    if (status)
        return status;
    if (p[7] >= TLC_CODEC_TEXT || memchr(p + STATE_HEAD, 0, p[7]))
        return TLC_FAIL(&w, TLC_ERR_PARAM, "the codec of the state is not a codec string: it has %s",
                        p[7] >= TLC_CODEC_TEXT ? "more than 127 characters" : "a NUL");
    memcpy(text, p + STATE_HEAD, p[7]);
    text[p[7]] = 0;
    status = tlc_codec_adopt(ctx, "the state's codec", text);
    if (status)
        return status;
    ctx->seed = tlc_load64(p + 16);
    ctx->step = tlc_load64(p + 24);
    if (ctx->feedback && ctx->n)
        tlc_copy_le(ctx->residual, p + STATE_HEAD + p[7], ctx->n, sizeof(float));
    return TLC_OK;
}
