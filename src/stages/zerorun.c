/* SPDX-License-Identifier: MIT
 *
 * Zero-run encoding (3LC, section 3.4): runs of the quartic byte 121 (five symbols 0) become tokens 243..255; 255 stands
 * for 14. Tokens are one byte each and name no position, so a payload can be cut anywhere, and read backwards.
 */
#include "stage.h"
#include <threelc/stages.h>

enum {
    CHUNK = 4096, /* positions between the coder and this stage: they stay in the first-level cache */
    TOKENS = 128, /* expanded at a time: in short turns the expansion goes on while the decoder's stores drain */
    GROUP = 64    /* positions: the decoder gets a multiple of it, but at the end */
};

static size_t leading_zeros(const uint8_t *src, size_t len)
{
    size_t i = 0;

    while (i < len && src[i] == TLC_QUARTIC_ZERO)
        i++;
    return i;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

static tlc_piece forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    uint8_t chunk[CHUNK];
    tlc_piece piece = {0, 0, 0};
    int leading = from > 0; /* a run at the start of the unit has nothing to be joined to */

    for (size_t at = from, count; at < to; at += count) {
        const uint8_t *bytes = chunk;
        count = to - at < CHUNK ? to - at : CHUNK;
        (void)tlc_codec_coder(u->codec)->coder->forward(u, at, at + count, chunk);
        size_t rest = count;
        if (leading) {
            size_t zeros = leading_zeros(chunk, count);
            piece.lead += zeros;
            bytes += zeros;
            rest -= zeros;
            leading = !rest;
        }
        piece.len += u->k->zerorun_encode(&piece.trail, bytes, rest, dst + piece.len);
    }
    return piece;
}

static size_t join(uint8_t *dst, size_t at, size_t *open, const tlc_piece *piece, const uint8_t *src)
{
    *open += piece->lead;
    if (piece->len) {
        /* the tokens may lie where the piece starts, so the piece moves first */
        size_t tokens = (size_t)tlc_ceil_div(*open, TLC_RUN_MAX);
        if (dst + at + tokens != src)
            memmove(dst + at + tokens, src, piece->len);
        at += tlc_zerorun_flush(*open, dst + at) + piece->len;
        *open = 0;
    }
    *open += piece->trail;
    return at;
}

static size_t finish(uint8_t *dst, size_t at, size_t open)
{
    return at + tlc_zerorun_flush(open, dst + at);
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

static uint64_t positions(const tlc_kernels *k, const uint8_t *src, size_t len)
{
    return k->zerorun_size(src, len);
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    uint8_t tail[4];
    uint64_t size = tlc_codec_coder(u->codec)->coder->positions(u->codec, u->n);
    unsigned want = size < 4 ? (unsigned)size : 4, have = want;

    if (u->k->zerorun_size(src, len) != size)
        return 0;
    while (have) { /* the last tokens, backwards */
        uint8_t token = src[--len];
        unsigned run = token > TLC_QUARTIC_MAX ? token - 241u : 1;
        for (; run && have; run--)
            tail[--have] = token > TLC_QUARTIC_MAX ? TLC_QUARTIC_ZERO : token;
    }
    return tlc_quartic_padding(u->n, tail);
}

/* The last tokens are copied, since what lies behind them must not be read. */
static size_t expand_last(const tlc_kernels *k, const uint8_t *src, size_t count, uint8_t *out)
{
    uint8_t last[TOKENS + TLC_ZERORUN_ROOM] = {0};

    tlc_copy_few(last, src, count);
    return k->zerorun_decode(last, count, out);
}

/* Expands the next tokens, and moves on. */
static size_t expand(const tlc_kernels *k, const uint8_t **src, const uint8_t *end, uint8_t *out)
{
    const uint8_t *in = *src;
    size_t left = (size_t)(end - in), count = left < TOKENS ? left : TOKENS;

    *src += count;
    return left < count + TLC_ZERORUN_ROOM ? expand_last(k, in, count, out) : k->zerorun_decode(in, count, out);
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src, size_t len)
{
    uint8_t chunk[GROUP + TOKENS * TLC_RUN_MAX + TLC_ZERORUN_ROOM];
    size_t at = from, have = 0;
    const tlc_unit *unit = u;
    tlc_lines lines;
    tlc_unit parts;

    if (u->sink->stream) {
        lines.open = 0;
        parts = *u;
        parts.lines = &lines;
        unit = &parts;
    }
    for (const uint8_t *end = src + len; src < end;) {
        have += expand(u->k, &src, end, chunk + have);
        size_t count = src < end ? have / GROUP * GROUP : have; /* TOKENS of them at least, or the last: not 0 */
        if (u->sink->stream)
            parts.last = src == end;
        tlc_codec_coder(u->codec)->coder->backward(unit, at, at + count, chunk);
        at += count;
        have -= count;
        if (src < end) /* less than a group is left; it moves whole, and not onto itself */
            memcpy(chunk, chunk + count, GROUP);
    }
    (void)to; /* where the tokens end */
}

static const tlc_shrink_ops shrink_ops = {forward, join, finish, check, positions, backward};

const tlc_stage tlc_stage_zerorun = {
    .name = "zerorun",
    .id = 1,
    .in = TLC_KIND_QUARTIC,
    .out = TLC_KIND_BYTES,
    .shrink = &shrink_ops,
    .meaning = "zero-run encoding: runs of up to 14 bytes of five zeros become a byte",
    .source = "Lim, Andersen, Kaminsky, 3LC, 2018, section 3.4",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

tlc_status tlc_zerorun_encode(const void *src, size_t len, void *dst, size_t cap, size_t *written)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);
    size_t open = 0;

    if (!written || (len && (!src || !dst)))
        return TLC_ERR_PARAM;
    if (cap < len)
        return TLC_ERR_CAPACITY;
    if (k->bytes_max(src, len) > TLC_QUARTIC_MAX)
        return TLC_ERR_PARAM;
    *written = 0;
    if (len) {
        size_t at = k->zerorun_encode(&open, src, len, dst);
        *written = finish(dst, at, open);
    }
    return TLC_OK;
}

uint64_t tlc_zerorun_decoded_size(const void *src, size_t len)
{
    return src ? tlc_kernels_for(TLC_ISA_AUTO)->zerorun_size(src, len) : 0;
}

tlc_status tlc_zerorun_decode(const void *src, size_t len, void *dst, size_t cap, size_t *written)
{
    const tlc_kernels *k = tlc_kernels_for(TLC_ISA_AUTO);
    uint64_t size = tlc_zerorun_decoded_size(src, len);
    uint8_t *to = dst;

    if (!written || (len && !src) || (size && cap && !dst))
        return TLC_ERR_PARAM;
    if (size > cap)
        return TLC_ERR_CAPACITY;
    const uint8_t *at = src, *end = len ? at + len : at;
    while (at < end) {
        uint8_t chunk[TOKENS * TLC_RUN_MAX + TLC_ZERORUN_ROOM];
        size_t count = expand(k, &at, end, chunk);
        memcpy(to, chunk, count);
        to += count;
    }
    *written = (size_t)size;
    return TLC_OK;
}
