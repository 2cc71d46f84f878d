/* SPDX-License-Identifier: MIT
 *
 * Quartic encoding (3LC, section 3.3): five symbols a byte, byte i taking symbol i of five contiguous partitions of
 * L = ceil(n / 5). A position is a byte. The last 5 L - n < 5 symbols are padding, digit 0; at most the last four bytes
 * hold any, and streams that lack values there go through copies.
 */
#include "stage.h"
#include <threelc/stages.h>

enum {
    PADDED_MAX = 4, /* positions that can have padding in them */
    TAIL = 16       /* positions at the end, these among them, that are coded apart: a vector costs as little as four */
};
static const uint8_t power[5] = {81, 27, 9, 3, 1};
static const uint32_t inverse[5] = {810, 2428, 7282, 21846, 65536}; /* 2^16 / power, rounded up: exact for bytes to 242 */

static uint64_t bytes(uint64_t n)
{
    return tlc_ceil_div(n, 5);
}

static uint64_t positions(const tlc_codec *codec, uint64_t n)
{
    (void)codec;
    return bytes(n);
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)codec;
    (void)dtype;
    return bytes(n);
}

/* Positions below this have five symbols of the tensor. */
static size_t full_positions(size_t n)
{
    size_t len = (size_t)bytes(n), padding = 5 * len - n;
    return padding < len ? len - padding : 0;
}

/* ---- forward ----------------------------------------------------------------------------------------------------- */

/* The sweep over full positions: in place for aligned floats, else through converted pieces. */
static void sweep(const tlc_unit *u, size_t len, size_t from, size_t to, uint8_t *dst)
{
    float converted[5][TLC_PIECE], *r[5];
    const float *g[5];
    int whole = !u->input.grad || tlc_is_floats(u->input.dtype, u->input.grad);

    for (size_t at = from, count; at < to; at += count, dst += count) {
        count = whole || to - at < TLC_PIECE ? to - at : TLC_PIECE;
        for (size_t k = 0; k < 5; k++) {
            size_t index = u->first + k * len + at;
            g[k] = tlc_input_floats(&u->input, index, count, converted[k]);
            r[k] = u->input.residual ? u->input.residual + index : NULL;
        }
        u->codec->value->value->quartic(u, u->input.grad ? g : NULL, u->input.residual ? r : NULL, count, dst);
    }
}

/* How many of the count values from stream k's position at on there are. */
static size_t present(const tlc_unit *u, size_t len, size_t k, size_t at, size_t count)
{
    size_t index = k * len + at, left = index < u->n ? (size_t)u->n - index : 0;
    return count < left ? count : left;
}

/* The last positions, where some symbols are padding: streams that have any (all but in tiny tensors only one has) go
 * through copies, with 0 for padding. */
static void padded(const tlc_unit *u, size_t len, size_t at, size_t count, uint8_t *dst)
{
    float converted[5][TAIL], residual[5][TAIL], *r[5];
    const float *g[5];

    for (size_t k = 0; k < 5; k++) {
        size_t some = present(u, len, k, at, count), index = u->first + k * len + at;
        g[k] = some ? tlc_input_floats(&u->input, index, some, converted[k]) : NULL;
        r[k] = some && u->input.residual ? u->input.residual + index : NULL;
        if (some == count)
            continue;
        if (g[k] && g[k] != converted[k])
            tlc_copy_few(converted[k], g[k], some * sizeof(float));
        if (r[k])
            tlc_copy_few(residual[k], r[k], some * sizeof(float));
        for (size_t i = some; i < count; i++)
            converted[k][i] = residual[k][i] = 0.0f;
        g[k] = converted[k];
        r[k] = residual[k];
    }
    u->codec->value->value->quartic(u, u->input.grad ? g : NULL, u->input.residual ? r : NULL, count, dst);
    for (size_t k = 0; k < 5; k++) {
        size_t some = present(u, len, k, at, count);
        if (some && some < count && u->input.residual)
            tlc_copy_few(u->input.residual + u->first + k * len + at, residual[k], some * sizeof(float));
        for (size_t i = some; i < count; i++)
            dst[i] = (uint8_t)(dst[i] - power[k]); /* from the digit 1, of a symbol 0, to 0 */
    }
}

/* Where the tail begins of a range that has padding in it. */
static size_t tail_start(size_t from, size_t to)
{
    return to - from > TAIL ? to - TAIL : from;
}

/* For value stages that have no sweep of their own: symbols a piece at a time. */
static void symbol_sweep(const tlc_unit *u, size_t len, size_t from, size_t to, uint8_t *dst)
{
    int8_t symbols[5][TLC_PIECE];
    const int8_t *q[5];

    for (size_t at = from, count; at < to; at += count, dst += count) {
        count = to - at < TLC_PIECE ? to - at : TLC_PIECE;
        for (size_t k = 0; k < 5; k++) {
            size_t some = present(u, len, k, at, count);
            q[k] = symbols[k];
            if (some)
                u->codec->value->value->symbols(u, k * len + at, some, symbols[k]);
            memset(symbols[k] + some, -1, count - some); /* digit 0 */
        }
        u->k->quartic_encode(q, count, dst);
    }
}

static uint64_t forward(const tlc_unit *u, size_t from, size_t to, uint8_t *dst)
{
    size_t len = (size_t)bytes(u->n), end = to > full_positions((size_t)u->n) ? tail_start(from, to) : to;

    if (!u->codec->value->value->quartic) {
        symbol_sweep(u, len, from, to, dst);
        return 0;
    }
    if (from < end)
        sweep(u, len, from, end, dst);
    if (end < to)
        padded(u, len, end, to - end, dst + (end - from));
    return 0;
}

/* ---- backward ---------------------------------------------------------------------------------------------------- */

int tlc_quartic_padding(uint64_t n, const uint8_t *tail)
{
    uint64_t len = bytes(n);
    unsigned count = len < PADDED_MAX ? (unsigned)len : PADDED_MAX, padding = (unsigned)(5 * len - n), k = 4, i = count;

    for (; padding; padding--) { /* from the last symbol on */
        if (!i--) {
            i = count - 1; /* fewer than four positions: tail has them all */
            k--;
        }
        if ((tail[i] * inverse[k] >> 16) % 3)
            return 0;
    }
    return 1;
}

static int check(const tlc_unit *u, const uint8_t *src, size_t len)
{
    if (len != bytes(u->n) || u->k->bytes_max(src, len) > TLC_QUARTIC_MAX)
        return 0;
    return tlc_quartic_padding(u->n, src + (len < 4 ? 0 : len - 4));
}

/* The digits other than 1 of every byte; a zero-run token, 243 and above, stands for none. */
#define DIGITS1(c) (c) + 1, (c), (c) + 1
#define DIGITS2(c) DIGITS1((c) + 1), DIGITS1(c), DIGITS1((c) + 1)
#define DIGITS3(c) DIGITS2((c) + 1), DIGITS2(c), DIGITS2((c) + 1)
#define DIGITS4(c) DIGITS3((c) + 1), DIGITS3(c), DIGITS3((c) + 1)
static const uint8_t nonzero_digits[256] = {DIGITS4(1), DIGITS4(0), DIGITS4(1)};

static uint64_t nonzero(const tlc_unit *u, const uint8_t *src, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++)
        sum += nonzero_digits[src[i]];
    return sum - (5 * bytes(u->n) - u->n); /* padding digits are 0 */
}

/* Positions to the sink one symbol after the other: for what kernels do not do. */
static void by_symbols(const tlc_unit *u, size_t len, size_t at, size_t count, const uint8_t *src)
{
    int8_t symbols[5][TLC_PIECE], *q[5];

    for (size_t i = 0; i < 5; i++)
        q[i] = symbols[i];
    for (size_t part; count; count -= part, at += part, src += part) {
        part = count < TLC_PIECE ? count : TLC_PIECE;
        u->k->quartic_decode(src, part, q);
        for (size_t i = 0; i < 5; i++)
            tlc_sink_symbols(u, i * len + at, present(u, len, i, at, part), q[i]);
    }
}

/* Positions to be written in another dtype. */
static void convert(const tlc_unit *u, size_t len, size_t at, size_t count, const uint8_t *src)
{
    float values[5][TLC_PIECE], *v[5];

    for (size_t k = 0; k < 5; k++)
        v[k] = values[k];
    for (size_t part; count; count -= part, at += part, src += part) {
        part = count < TLC_PIECE ? count : TLC_PIECE;
        u->k->quartic_ternary_decode(src, part, u->scalars[0], v);
        for (size_t k = 0; k < 5; k++)
            tlc_sink_floats(u, k * len + at, present(u, len, k, at, part), values[k]);
    }
}

/* Full positions of a range, past the caches; last: what comes after them, if anything, does not come here. */
static void stream(const tlc_unit *u, size_t count, int last, const uint8_t *src, float *const out[5])
{
    tlc_lines all;
    all.open = 0;
    u->k->quartic_ternary_stream(src, count, u->scalars[0], out, u->lines ? u->lines : &all,
                                 last || !u->lines || u->last);
}

/* Positions of which some streams lack values, in place but for those: kernels write and add whole positions. */
static void in_place_padded(const tlc_unit *u, size_t len, size_t at, size_t count, const uint8_t *src, float weight)
{
    float copy[5][TAIL], *out[5], *to = (float *)u->sink->out + u->first + at;
    int add = u->sink->mode == TLC_SINK_ADD;

    for (size_t k = 0; k < 5; k++) {
        size_t some = present(u, len, k, at, count);
        out[k] = some == count ? to + k * len : copy[k];
        for (size_t i = 0; add && some < count && i < count; i++)
            copy[k][i] = i < some ? to[k * len + i] : 0.0f;
    }
    if (add)
        u->k->quartic_ternary_add(src, count, weight, out);
    else
        u->k->quartic_ternary_decode(src, count, u->scalars[0], out);
    for (size_t k = 0; k < 5; k++) {
        size_t some = present(u, len, k, at, count);
        if (some && some < count)
            tlc_copy_few(to + k * len, copy[k], some * sizeof(float));
    }
}

static void backward(const tlc_unit *u, size_t from, size_t to, const uint8_t *src)
{
    const tlc_sink *s = u->sink;
    size_t len = (size_t)bytes(u->n), full = full_positions((size_t)u->n), end = to > full ? tail_start(from, to) : to;
    float w = s->weight * u->scalars[0], *out[5];
    int write = s->mode == TLC_SINK_WRITE, in_place = tlc_is_floats(s->dtype, s->out);

    if (!write && !(s->mode == TLC_SINK_ADD && tlc_finite(w))) {
        by_symbols(u, len, from, to - from, src);
        return;
    }
    if (!in_place) {
        convert(u, len, from, to - from, src);
        return;
    }
    if (from < end || (u->lines && u->lines->open)) {
        for (size_t k = 0; k < 5; k++)
            out[k] = (float *)s->out + u->first + k * len + from;
        if (write && s->stream)
            stream(u, end - from, end < to, src, out);
        else if (write)
            u->k->quartic_ternary_decode(src, end - from, u->scalars[0], out);
        else
            u->k->quartic_ternary_add(src, end - from, w, out);
    }
    if (end < to)
        in_place_padded(u, len, end, to - end, src + (end - from), w);
}

static const tlc_coder_ops coder_ops = {
    .bound = bound,
    .positions = positions,
    .width = tlc_layout_bytes,
    .forward = forward,
    .check = check,
    .backward = backward,
    .nonzero = nonzero,
};

const tlc_stage tlc_stage_quartic = {
    .name = "quartic",
    .id = 1,
    .in = TLC_KIND_TERNARY,
    .out = TLC_KIND_QUARTIC,
    .coder = &coder_ops,
    .meaning = "quartic encoding: five symbols a byte",
    .source = "Lim, Andersen, Kaminsky, 3LC, 2018, section 3.3",
};

/* ---- the stage alone --------------------------------------------------------------------------------------------- */

size_t tlc_quartic_size(size_t n)
{
    return (size_t)bytes(n);
}

tlc_status tlc_quartic_encode(const int8_t *q, size_t n, void *dst, size_t cap, size_t *written)
{
    size_t len = (size_t)bytes(n), full = full_positions(n);
    const int8_t *stream[5];
    uint8_t *out = dst;

    if (!written || (n && (!q || !dst)))
        return TLC_ERR_PARAM;
    if (cap < len)
        return TLC_ERR_CAPACITY;
    if (!tlc_symbols_valid(q, n))
        return TLC_ERR_PARAM;
    for (size_t k = 0; full && k < 5; k++)
        stream[k] = q + k * len;
    if (full)
        tlc_kernels_for(TLC_ISA_AUTO)->quartic_encode(stream, full, out);
    for (size_t i = full; i < len; i++) {
        unsigned byte = 0;
        for (size_t k = 0; k < 5; k++)
            byte = byte * 3 + (k * len + i < n ? (unsigned)(q[k * len + i] + 1) : 0);
        out[i] = (uint8_t)byte;
    }
    *written = len;
    return TLC_OK;
}

tlc_status tlc_quartic_decode(const void *src, size_t len, int8_t *q, size_t n)
{
    tlc_unit u = {.k = tlc_kernels_for(TLC_ISA_AUTO), .n = n};
    size_t full = full_positions(n);
    int8_t *stream[5], last[5];

    if ((len && !src) || (n && !q))
        return TLC_ERR_PARAM;
    if (len != bytes(n))
        return TLC_ERR_SIZE;
    if (!len)
        return TLC_OK;
    if (!check(&u, src, len))
        return TLC_ERR_CORRUPT;
    if (full) {
        for (size_t k = 0; k < 5; k++)
            stream[k] = q + k * len;
        u.k->quartic_decode(src, full, stream);
    }
    for (size_t k = 0; k < 5; k++)
        stream[k] = &last[k];
    for (size_t i = full; i < len; i++) {
        u.k->quartic_decode((const uint8_t *)src + i, 1, stream);
        for (size_t k = 0; k < 5 && k * len + i < n; k++)
            q[k * len + i] = last[k];
    }
    return TLC_OK;
}
