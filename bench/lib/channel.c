/* SPDX-License-Identifier: MIT
 *
 * Contexts and buffers. Every buffer starts at a multiple of 64, as the tensors of frameworks do.
 */
#include "channel.h"
#include "explain.h"
#include <stdlib.h>
#include <string.h>

void *channel_buffer(size_t size)
{
    void *bytes;

    if (size > SIZE_MAX - 64)
        return NULL;
    bytes = aligned_alloc(64, round_up_64(size));
    return bytes ? memset(bytes, 0, round_up_64(size)) : NULL;
}

static tlc_status make_context(tlc_ctx **ctx, size_t n, tlc_dtype dtype, const channel_options *options)
{
    tlc_config cfg;
    tlc_status status = tlc_config_init(&cfg, sizeof cfg);

    cfg.codec = options->codec;
    cfg.dtype = dtype;
    cfg.feedback = options->feedback;
    cfg.seed = options->seed;
    cfg.isa = options->isa;
    cfg.checksum = options->checksum;
    cfg.assume_finite = options->assume_finite;
    cfg.parallel = options->parallel;
    return status ? status : tlc_create(ctx, &cfg, n);
}

float *channel_residual(const channel *c)
{
    if (c->peer)
        return c->peer->feedback ? c->peer->residual(c->state) : NULL;
    return c->ctx ? tlc_residual(c->ctx) : NULL;
}

/* Puts the recorded residual in place of the zeros of a new context or peer. */
static void start_residual(const channel *c)
{
    if (c->start)
        memcpy(channel_residual(c), c->start, c->tensor->n * sizeof *c->start);
}

void channel_restart(const channel *c)
{
    tlc_reset(c->ctx);
    start_residual(c);
}

static tlc_status open_one(channel *c, const tensor *t, tlc_dtype dtype, const channel_options *options)
{
    tlc_status status = TLC_OK;

    c->tensor = t;
    c->delay = options->delay ? options->delay : 1;
    c->peer = options->peer;
    c->decode.struct_size = sizeof c->decode;
    c->decode.isa = options->isa;
    c->decode.parallel = options->parallel;
    if (options->codec)
        status = make_context(&c->ctx, t->n, dtype, options);
    if (status)
        return status;
    if (c->peer && !c->peer->bound(c->peer, t->n, &c->bound))
        return TLC_ERR_SIZE;
    c->state = c->peer ? c->peer->open(c->peer, t->n, options->isa) : NULL;
    c->bound = c->ctx ? tlc_bound(c->ctx) : c->bound;
    c->frame = channel_buffer(c->bound > t->n / 5 + 1 ? c->bound : t->n / 5 + 1);
    c->out = channel_buffer(t->n * dtype_size(dtype));
    c->sum = t->n <= SIZE_MAX / sizeof *c->sum ? channel_buffer(t->n * sizeof *c->sum) : NULL;
    if (!c->frame || !c->out || !c->sum || (c->peer && !c->state))
        return TLC_ERR_NOMEM;
    c->start = channel_residual(c) ? t->residual : NULL;
    start_residual(c);
    return TLC_OK;
}

channel *channels_open(const tensor *tensors, size_t count, tlc_dtype dtype, const channel_options *options, char *why)
{
    channel *channels = calloc(count, sizeof *channels);
    tlc_status status = channels ? TLC_OK : TLC_ERR_NOMEM;

    for (size_t i = 0; !status && i < count; i++)
        status = open_one(&channels[i], &tensors[i], dtype, options);
    if (!status)
        return channels;
    channels_close(channels, count);
    explain(why, "%s", tlc_status_string(status));
    return NULL;
}

void channels_close(channel *channels, size_t count)
{
    if (!channels)
        return;
    for (size_t i = 0; i < count; i++) {
        tlc_destroy(channels[i].ctx);
        if (channels[i].peer)
            channels[i].peer->close(channels[i].state);
        free(channels[i].frame);
        free(channels[i].out);
        free(channels[i].sum);
    }
    free(channels);
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

bool channel_accumulate(const channel *c, size_t step, char *why)
{
    tlc_status status = tlc_accumulate(c->ctx, tensor_step(c->tensor, step));

    return !status || explain(why, "tlc_accumulate: %s", tlc_status_string(status));
}

bool channel_compress(const channel *c, size_t step, size_t *len, char *why)
{
    const void *grad = tensor_step(c->tensor, step);

    if (c->peer)
        return c->peer->compress(c->state, grad, c->tensor->n, c->frame, c->bound, len) ||
               explain(why, "compress failed");
    tlc_status status = tlc_compress(c->ctx, grad, c->frame, c->bound, len);
    return !status || explain(why, "tlc_compress: %s", tlc_status_string(status));
}

bool channel_decompress(const channel *c, const void *frame, size_t len, tlc_dtype dtype, void *out, char *why)
{
    if (c->peer)
        return c->peer->decompress(c->state, frame, len, out, c->tensor->n) || explain(why, "decompress failed");
    tlc_status status = tlc_decompress(frame, len, dtype, out, c->tensor->n, &c->decode);
    return !status || explain(why, "tlc_decompress: %s", tlc_status_string(status));
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

bool frames_open(frame_store *frames, size_t slots, char *why)
{
    *frames = (frame_store){.slots = slots};
    frames->offset = calloc(slots, sizeof *frames->offset);
    frames->len = calloc(slots, sizeof *frames->len);
    if (frames->offset && frames->len)
        return true;
    frames_close(frames);
    return explain(why, "out of memory");
}

/* realloc would lose the alignment. */
static bool grow(frame_store *frames, size_t need)
{
    size_t size = frames->size > SIZE_MAX / 4 ? need : frames->size * 2;
    unsigned char *bytes = channel_buffer(size > need ? size : need);

    if (!bytes)
        return false;
    if (frames->used)
        memcpy(bytes, frames->bytes, frames->used);
    free(frames->bytes);
    frames->bytes = bytes;
    frames->size = size > need ? size : need;
    return true;
}

bool frames_append(frame_store *frames, const void *frame, size_t len, char *why)
{
    size_t end = frames->used + round_up_64(len);

    if (frames->count == frames->slots || end < len || (end > frames->size && !grow(frames, end)))
        return explain(why, "out of memory");
    memcpy(frames->bytes + frames->used, frame, len);
    frames->offset[frames->count] = frames->used;
    frames->len[frames->count++] = len;
    frames->used = end;
    return true;
}

void frames_close(frame_store *frames)
{
    free(frames->bytes);
    free(frames->offset);
    free(frames->len);
    *frames = (frame_store){.count = 0};
}

static bool frame_matches(const frame_store *frames, size_t i, const channel *c, size_t step, char *why)
{
    size_t len;

    if (!channel_compress(c, step, &len, why))
        return false;
    return (len == frames->len[i] && !memcmp(c->frame, frames->bytes + frames->offset[i], len)) ||
           explain(why, "the frame is not the one that a single thread makes without assume_finite");
}

bool frames_match(const frame_store *frames, const tensor *tensors, size_t count, tlc_dtype dtype,
                  const channel_options *options, char *why)
{
    char reason[WHY_SIZE];
    bool ok = true;

    for (size_t t = 0; ok && t < count; t++) {
        channel *c = channels_open(&tensors[t], 1, dtype, options, why);
        size_t steps = channel_steps(tensors[t].steps, options->delay);
        ok = c != NULL;
        for (size_t step = 0; ok && step < steps; step++) {
            ok = (channel_sends(c, step) ? frame_matches(frames, step / c->delay * count + t, c, step, reason)
                                         : channel_accumulate(c, step, reason)) ||
                 explain(why, "%s, step %zu: %s", tensors[t].name, step, reason);
        }
        channels_close(c, 1);
    }
    return ok;
}
