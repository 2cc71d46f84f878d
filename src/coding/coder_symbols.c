/* SPDX-License-Identifier: MIT
 *
 * Payloads of symbols (packed.h has the layout): a packer puts several symbols into a byte, and a shrinker may make the
 * bytes fewer. unpack.c decodes them.
 */
#include "../common/stack.h"
#include "feedback.h"
#include "packed.h"

enum {
    PACKED = 4096,  /* bytes between packer and shrinker at a time: they stay in the first-level cache */
    CONVERTED = 512 /* values of each stream that are converted at a time, for the same reason */
};

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return tlc_packed_size(tlc_codec_symbol_packer(codec), n);
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Packs bytes without padding with a fused kernel: in place, or in converted chunks. */
TLC_OWN_FRAME static void pack_fused(const tlc_packed *s, size_t from, size_t to, uint8_t *dst)
{
    float converted[TLC_STREAMS_MAX][CONVERTED], *r[TLC_STREAMS_MAX];
    const tlc_input *in = s->u->input;
    const float *g[TLC_STREAMS_MAX];

    for (size_t at = from, count; at < to; at += count, dst += count) {
        count = tlc_input_in_place(in) ? to - at : tlc_smaller(to - at, CONVERTED);
        for (size_t k = 0; k < s->p->streams; k++) {
            size_t index = s->u->first + k * s->len + at;
            g[k] = tlc_input_gradient(in, index, count, converted[k]);
            r[k] = tlc_input_residual(in, index);
        }
        s->c->fused->encode_and_pack(s->u, in->grad ? g : NULL, in->residual ? r : NULL, count, dst);
    }
}

/* Packs the tail with a fused kernel. A stream with padding uses copies, in which the missing values are 0. (Only the
 * last stream has padding, except in tiny tensors.) */
static void pack_tail_fused(const tlc_packed *s, size_t at, size_t count, uint8_t *dst)
{
    float converted[TLC_STREAMS_MAX][TLC_TAIL], residual[TLC_STREAMS_MAX][TLC_TAIL], *r[TLC_STREAMS_MAX];
    const tlc_input *in = s->u->input;
    const float *g[TLC_STREAMS_MAX];
    size_t have[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++) {
        size_t some = have[k] = tlc_packed_present(s, k, at, count), index = s->u->first + k * s->len + at;
        g[k] = some ? tlc_input_gradient(in, index, some, converted[k]) : NULL;
        r[k] = some ? tlc_input_residual(in, index) : NULL;
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
    s->c->fused->encode_and_pack(s->u, in->grad ? g : NULL, in->residual ? r : NULL, count, dst);
    for (size_t k = 0; k < s->p->streams; k++) {
        if (have[k] && have[k] < count && in->residual)
            tlc_copy_few(in->residual + s->u->first + k * s->len + at, residual[k], have[k] * sizeof(float));
        for (size_t i = have[k]; i < count; i++)
            dst[i] = (uint8_t)(dst[i] - s->p->place[k]); /* from the digit 1, of a symbol 0, to 0 */
    }
}

/* Packs any bytes, without fused kernels. */
TLC_OWN_FRAME static void pack_unfused(const tlc_packed *s, size_t from, size_t to, uint8_t *dst)
{
    int8_t symbols[TLC_STREAMS_MAX][TLC_CHUNK];
    const int8_t *q[TLC_STREAMS_MAX];
    float wanted[TLC_CHUNK];

    for (size_t at = from, count; at < to; at += count, dst += count) {
        count = tlc_smaller(to - at, TLC_CHUNK);
        for (size_t k = 0; k < s->p->streams; k++) {
            tlc_chunk c = {.at = k * s->len + at, .count = tlc_packed_present(s, k, at, count), .symbols = symbols[k]};
            if (c.count) {
                c.x = tlc_unit_values(s->u, c.at, c.count, wanted);
                (void)s->u->quantizer->encode(s->u, &c);
                tlc_feedback_symbols(s->u, &c);
            }
            memset(symbols[k] + c.count, -1, count - c.count); /* digit 0 */
            q[k] = symbols[k];
        }
        s->p->encode(s->u->k, q, count, dst);
    }
}

static void pack(const tlc_packed *s, size_t from, size_t to, uint8_t *dst)
{
    /* Ternary symbols as quartic bytes, with which alone a library may be built, have a fused kernel. */
    if (TLC_IS_BUILT(TLC_WITH_STOCHASTIC_TERNARY | TLC_WITH_GOLOMB_CODES) &&
        (!s->c->fused || !s->c->fused->encode_and_pack)) {
        pack_unfused(s, from, to, dst);
        return;
    }
    size_t end = tlc_packed_tail(s, from, to);
    if (from < end)
        pack_fused(s, from, end, dst);
    if (end < to)
        pack_tail_fused(s, end, to - end, dst + (end - from));
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* A shrunk range before ranges are joined. Its runs of zero bytes may go on in the ranges before and after it. */
typedef struct shrunk_range {
    size_t leading;  /* zero bytes at its start, not written yet: there is room for them */
    size_t len;      /* bytes that are written after this room */
    size_t trailing; /* zero bytes at its end, not written yet; 0 if all bytes are leading */
} shrunk_range;

typedef struct pack_work {
    tlc_packed s;
    tlc_ranges ranges; /* of packed bytes */
    uint8_t *dst;
    shrunk_range shrunk[TLC_RANGES_MAX];
} pack_work;

static size_t count_leading(const uint8_t *src, size_t len, uint8_t zero)
{
    size_t i = 0;

    /* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): pack has written all of them */
    while (i < len && src[i] == zero)
        i++;
    return i;
}

static shrunk_range pack_and_shrink(const tlc_packed *s, size_t from, size_t to, uint8_t *dst)
{
    const tlc_shrinker *shrinker = s->c->codec->shrinker->shrink;
    shrunk_range range = {0, 0, 0};
    uint8_t packed[PACKED];
    int leading = from > 0; /* nothing comes before the first range */

    for (size_t at = from, count; at < to; at += count) {
        size_t zeros = 0;
        count = tlc_smaller(to - at, PACKED);
        pack(s, at, at + count, packed);
        if (leading) {
            zeros = count_leading(packed, count, s->p->zero);
            range.leading += zeros;
            leading = zeros == count;
        }
        range.len += shrinker->encode(s->u->k, &range.trailing, packed + zeros, count - zeros,
                                      dst + range.leading + range.len);
    }
    return range;
}

static void encode_range(void *arg, size_t i)
{
    pack_work *w = arg;
    size_t from = tlc_range_start(&w->ranges, i), to = tlc_range_start(&w->ranges, i + 1);

    if (w->s.c->codec->shrinker)
        w->shrunk[i] = pack_and_shrink(&w->s, from, to, w->dst + from);
    else
        pack(&w->s, from, to, w->dst + from);
}

/* Joins the shrunk ranges. The run before a range always fits before what is written of it. */
static size_t join(const pack_work *w)
{
    const tlc_shrinker *shrinker = w->s.c->codec->shrinker->shrink;
    const tlc_kernels *k = w->s.u->k;
    size_t at = 0, run = 0;

    for (size_t i = 0; i < w->ranges.count; i++) {
        const uint8_t *src = w->dst + tlc_range_start(&w->ranges, i) + w->shrunk[i].leading;
        run += w->shrunk[i].leading;
        if (w->shrunk[i].len) {
            at += shrinker->encode(k, &run, NULL, 0, w->dst + at);
            if (w->dst + at != src)
                memmove(w->dst + at, src, w->shrunk[i].len);
            at += w->shrunk[i].len;
        }
        run += w->shrunk[i].trailing;
    }
    return at + shrinker->encode(k, &run, NULL, 0, w->dst + at);
}

static size_t encode(tlc_coding *c, uint8_t *dst)
{
    pack_work w;

    tlc_packed_begin(&w.s, c);
    w.ranges = tlc_ranges_split(c->parallel, w.s.len, TLC_RANGE_MIN);
    w.dst = dst;
    tlc_ranges_run(c->parallel, w.ranges.count, encode_range, &w);
    return c->codec->shrinker ? join(&w) : w.s.len;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* Are all padding digits 0? last: the last packed bytes, as many as there are streams, or all if there are fewer. */
static int padding_valid(const tlc_packed *s, const uint8_t *last)
{
    size_t padding = s->p->streams * s->len - (size_t)s->u->n, count = tlc_smaller(s->len, s->p->streams);

    for (size_t i = 0; i < padding; i++) { /* from the last symbol backwards */
        size_t stream = s->p->streams - 1 - i / s->len, at = count - 1 - i % s->len;
        if (last[at] / s->p->place[stream] % s->p->base)
            return 0;
    }
    return 1;
}

/* Expands the last packed bytes of a shrunk payload, from the end backwards. Bytes above `largest` are runs of zero
 * bytes. */
static void expand_last(const tlc_packed *s, const uint8_t *src, size_t len, uint8_t *last, size_t count)
{
    const tlc_shrinker *shrinker = s->c->codec->shrinker->shrink;

    while (count) {
        uint8_t byte = src[--len];
        unsigned run = shrinker->expansion(byte);
        for (; run && count; run--)
            last[--count] = byte <= s->p->largest ? byte : s->p->zero;
    }
}

static int check(const tlc_coding *c)
{
    uint8_t last[TLC_STREAMS_MAX];
    tlc_packed s;

    if (c->unit.n != (size_t)c->unit.n) /* more than a size of 32 bits can tell */
        return 0;
    tlc_packed_begin(&s, c);
    size_t count = tlc_smaller(s.len, s.p->streams);
    /* The fallback of a packer is not shrunk. */
    if (c->codec->shrinker) {
        if (c->codec->shrinker->shrink->size(s.u->k, c->payload, c->len) != s.len)
            return 0;
        expand_last(&s, c->payload, c->len, last, count);
        return padding_valid(&s, last);
    }
    return c->len == s.len && s.u->k->bytes_max(c->payload, c->len) <= s.p->largest &&
           padding_valid(&s, c->payload + c->len - count);
}

static size_t streams(const tlc_coding *c)
{
    return tlc_codec_symbol_packer(c->codec)->streams;
}

const tlc_coder tlc_coder_of_symbols = {
    .bound = bound,
    .encode = encode,
    .check = check,
    .streams = streams,
    .skip = tlc_unpack_skip,
    .decode = tlc_unpack,
};
