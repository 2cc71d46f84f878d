/* SPDX-License-Identifier: MIT
 *
 * Contexts and buffers. Every buffer starts at a multiple of 64, as frameworks allocate tensors.
 */
#include "channel.h"
#include "explain.h"
#include <stdlib.h>
#include <string.h>

/* Zeroed, so that no page is mapped for the first time under the clock. */
static void *allocate(size_t size)
{
    void *bytes;

    if (size > SIZE_MAX - 64)
        return NULL;
    bytes = aligned_alloc(64, round_up_64(size));
    return bytes ? memset(bytes, 0, round_up_64(size)) : NULL;
}

static tlc_status open_one(channel *c, const tensor *t, tlc_dtype dtype, const char *codec,
                           const channel_options *options)
{
    tlc_config cfg;
    tlc_status status = tlc_config_init(&cfg, sizeof cfg);

    cfg.codec = codec;
    cfg.dtype = dtype;
    cfg.feedback = options->feedback;
    cfg.seed = options->seed;
    cfg.isa = options->isa;
    cfg.checksum = options->checksum;
    c->tensor = t;
    if (!status)
        status = tlc_create(&c->ctx, &cfg, t->n);
    if (status)
        return status;
    c->bound = tlc_bound(c->ctx);
    c->frame = allocate(c->bound);
    c->out = allocate(t->n * dtype_size(dtype));
    c->sum = t->n <= SIZE_MAX / sizeof *c->sum ? allocate(t->n * sizeof *c->sum) : NULL;
    return c->frame && c->out && c->sum ? TLC_OK : TLC_ERR_NOMEM;
}

channel *channels_open(const tensor *tensors, size_t count, tlc_dtype dtype, const char *codec,
                       const channel_options *options, char *why)
{
    channel *channels = calloc(count, sizeof *channels);
    tlc_status status = channels ? TLC_OK : TLC_ERR_NOMEM;

    for (size_t i = 0; !status && i < count; i++)
        status = open_one(&channels[i], &tensors[i], dtype, codec, options);
    if (!status)
        return channels;
    channels_close(channels, count);
    explain(why, "%s: %s", codec, tlc_status_string(status));
    return NULL;
}

void channels_close(channel *channels, size_t count)
{
    if (!channels)
        return;
    for (size_t i = 0; i < count; i++) {
        tlc_destroy(channels[i].ctx);
        free(channels[i].frame);
        free(channels[i].out);
        free(channels[i].sum);
    }
    free(channels);
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
    unsigned char *bytes = allocate(size > need ? size : need);

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
