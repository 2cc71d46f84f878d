/* SPDX-License-Identifier: MIT
 *
 * The state of a context as bytes, little-endian:
 *
 *   0..3    "TLCS"
 *   4       version, 1
 *   5       dtype of the gradients
 *   6       1 with a residual, else 0
 *   7       c, length of the codec string
 *   8..15   n
 *   16..23  seed
 *   24..31  step
 *   32..    the codec string, c bytes
 *   then    the residual, n f32, if there is one
 *   then    the checksum, u32: the low 32 bits of XXH3_64bits of all bytes before it
 */
#include "coding/frame.h"
#include "common/bytes.h"
#include "context.h"

#define STATE_VERSION 1
#define STATE_HEAD 32

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

    if (!ctx || !dst || !written)
        return TLC_ERR_PARAM;
    if (cap < tlc_state_size(ctx))
        return TLC_ERR_CAPACITY;
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

tlc_status tlc_state_load(tlc_ctx *ctx, const void *src, size_t len)
{
    const uint8_t *p = src;
    char text[TLC_CODEC_TEXT];
    tlc_codec codec;
    tlc_status status;

    if (!ctx || (!src && len))
        return TLC_ERR_PARAM;
    if (len < STATE_HEAD + TLC_CHECKSUM_SIZE || memcmp(p, magic, sizeof magic) != 0)
        return TLC_ERR_CORRUPT;
    if (p[4] != STATE_VERSION)
        return TLC_ERR_VERSION;
    len -= TLC_CHECKSUM_SIZE;
    if (tlc_load32(p + len) != tlc_checksum(p, len))
        return TLC_ERR_CHECKSUM;
    if (tlc_load64(p + 8) != ctx->n)
        return TLC_ERR_SIZE;
    if (p[5] != ctx->dtype || p[6] != ctx->feedback)
        return TLC_ERR_PARAM;
    if (len - STATE_HEAD < p[7] || len - STATE_HEAD - p[7] != residual_size(ctx))
        return TLC_ERR_CORRUPT;
    status = tlc_codec_parse(&codec, (const char *)p + STATE_HEAD, p[7], NULL); /* fails for a NUL or a long text */
    if (status)
        return status;
    memcpy(text, p + STATE_HEAD, p[7]);
    text[p[7]] = 0;
    status = tlc_set_codec(ctx, text);
    if (status)
        return status;
    ctx->seed = tlc_load64(p + 16);
    ctx->step = tlc_load64(p + 24);
    if (ctx->feedback && ctx->n)
        tlc_copy_le(ctx->residual, p + STATE_HEAD + p[7], ctx->n, sizeof(float));
    return TLC_OK;
}
