/* SPDX-License-Identifier: MIT
 *
 * Payloads of symbols. A packer puts several symbols into a byte, and a shrinker may make the bytes fewer. Each symbol
 * of a byte comes from another stream. The streams are contiguous partitions of len = ceil(n / streams) values of the
 * unit. In the last few bytes some streams have no values left. Their digit there is 0: padding.
 */
#include "../common/sizes.h"
#include "coder.h"
#include "feedback.h"

enum {
    TAIL = 16, /* the last bytes, which may have padding, are coded separately: a vector costs as much as four bytes */
    PACKED = 4096,   /* bytes between packer and shrinker at a time: they stay in the first-level cache */
    SHRUNK = 128,    /* shrunk bytes that are expanded at a time */
    EXPANDED = 2048, /* packed bytes that are expanded before they are decoded: enough to be worth the turn */
    WHOLE = 64       /* packed bytes are decoded in multiples of 64, except at the end */
};

static uint64_t packed_size(const tlc_packer *p, uint64_t n)
{
    return tlc_ceil_div(n, p->streams);
}

static uint64_t bound(const tlc_codec *codec, tlc_dtype dtype, uint64_t n)
{
    (void)dtype;
    return packed_size(tlc_codec_symbol_packer(codec), n);
}

/* A unit as packed bytes. */
typedef struct shape {
    const tlc_coding *c;
    const tlc_unit *u;
    const tlc_packer *p;
    size_t len, full; /* how many packed bytes; how many without padding, which come first */
} shape;

static void shape_of(shape *s, const tlc_coding *c)
{
    s->c = c;
    s->u = &c->unit;
    s->p = tlc_codec_symbol_packer(c->codec);
    s->len = (size_t)packed_size(s->p, c->unit.n);
    size_t padding = s->p->streams * s->len - (size_t)c->unit.n;
    s->full = padding < s->len ? s->len - padding : 0;
}

/* How many of the count values of a stream, from byte `at` on, there are. */
static size_t present(const shape *s, size_t stream, size_t at, size_t count)
{
    size_t index = stream * s->len + at, left = index < s->u->n ? (size_t)s->u->n - index : 0;
    return count < left ? count : left;
}

/* Where the bytes begin that are coded separately. A range without padding has none. */
static size_t tail_start(const shape *s, size_t from, size_t to)
{
    if (to <= s->full)
        return to;
    return to - from > TAIL ? to - TAIL : from;
}

/* ---- packing ----------------------------------------------------------------------------------------------------- */

/* Packs bytes without padding with a fused kernel: in place, or in converted chunks. */
static void pack_fused(const shape *s, size_t from, size_t to, uint8_t *dst)
{
    float converted[TLC_STREAMS_MAX][TLC_CHUNK], *r[TLC_STREAMS_MAX];
    const tlc_input *in = s->u->input;
    const float *g[TLC_STREAMS_MAX];

    for (size_t at = from, count; at < to; at += count, dst += count) {
        count = tlc_input_in_place(in) ? to - at : tlc_smaller(to - at, TLC_CHUNK);
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
static void pack_tail_fused(const shape *s, size_t at, size_t count, uint8_t *dst)
{
    float converted[TLC_STREAMS_MAX][TAIL], residual[TLC_STREAMS_MAX][TAIL], *r[TLC_STREAMS_MAX];
    const tlc_input *in = s->u->input;
    const float *g[TLC_STREAMS_MAX];
    size_t have[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++) {
        size_t some = have[k] = present(s, k, at, count), index = s->u->first + k * s->len + at;
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
static void pack_by_steps(const shape *s, size_t from, size_t to, uint8_t *dst)
{
    int8_t symbols[TLC_STREAMS_MAX][TLC_CHUNK];
    const int8_t *q[TLC_STREAMS_MAX];
    float wanted[TLC_CHUNK];

    for (size_t at = from, count; at < to; at += count, dst += count) {
        count = tlc_smaller(to - at, TLC_CHUNK);
        for (size_t k = 0; k < s->p->streams; k++) {
            tlc_chunk c = {.at = k * s->len + at, .count = present(s, k, at, count), .symbols = symbols[k]};
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

static void pack(const shape *s, size_t from, size_t to, uint8_t *dst)
{
    if (!s->c->fused || !s->c->fused->encode_and_pack) {
        pack_by_steps(s, from, to, dst);
        return;
    }
    size_t end = tail_start(s, from, to);
    if (from < end)
        pack_fused(s, from, end, dst);
    if (end < to)
        pack_tail_fused(s, end, to - end, dst + (end - from));
}

/* ---- encode ------------------------------------------------------------------------------------------------------ */

/* A shrunk range before ranges are joined. Its runs of zero bytes may go on in the ranges before and after it. */
typedef struct shrunk_range {
    size_t leading;  /* zero bytes at its start, not written yet: there is room for them */
    size_t len;      /* bytes that are written behind this room */
    size_t trailing; /* zero bytes at its end, not written yet; 0 if all bytes are leading */
} shrunk_range;

typedef struct pack_work {
    shape s;
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

static shrunk_range pack_and_shrink(const shape *s, size_t from, size_t to, uint8_t *dst)
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

    shape_of(&w.s, c);
    w.ranges = tlc_ranges_split(c->parallel, w.s.len, TLC_RANGE_MIN);
    w.dst = dst;
    tlc_ranges_run(c->parallel, w.ranges.count, encode_range, &w);
    return c->codec->shrinker ? join(&w) : w.s.len;
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

/* Are all padding digits 0? last: the last packed bytes, as many as there are streams, or all if there are fewer. */
static int padding_valid(const shape *s, const uint8_t *last)
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
static void expand_last(const shape *s, const uint8_t *src, size_t len, uint8_t *last, size_t count)
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
    shape s;

    shape_of(&s, c);
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

/* ---- unpacking --------------------------------------------------------------------------------------------------- */

/* For a range that is decoded in several parts with stores past the caches. */
typedef struct streaming {
    tlc_lines lines;
    int last; /* 1 for the last part */
} streaming;

static void unpack_by_steps(const shape *s, size_t at, size_t count, const uint8_t *src)
{
    int8_t symbols[TLC_STREAMS_MAX][TLC_CHUNK], *q[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++)
        q[k] = symbols[k];
    for (size_t part; count; count -= part, at += part, src += part) {
        part = tlc_smaller(count, TLC_CHUNK);
        s->p->decode(s->u->k, src, part, q);
        for (size_t k = 0; k < s->p->streams; k++)
            tlc_output_symbols(s->c->output, s->u->first + k * s->len + at, present(s, k, at, part), q[k],
                               s->u->scalars[0]);
    }
}

/* Writes f16, bf16 or unaligned f32. */
static void unpack_converted(const shape *s, size_t at, size_t count, const uint8_t *src)
{
    float values[TLC_STREAMS_MAX][TLC_CHUNK], *v[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++)
        v[k] = values[k];
    for (size_t part; count; count -= part, at += part, src += part) {
        part = tlc_smaller(count, TLC_CHUNK);
        s->c->fused->unpack_and_write(s->u->k, src, part, s->u->scalars[0], v);
        for (size_t k = 0; k < s->p->streams; k++)
            tlc_output_values(s->c->output, s->u->first + k * s->len + at, present(s, k, at, part), values[k]);
    }
}

/* Unpacks the tail. Fused kernels write and add all symbols of a byte, so streams without enough values use a copy. */
static void unpack_tail(const shape *s, size_t at, size_t count, const uint8_t *src, float scale)
{
    float copy[TLC_STREAMS_MAX][TAIL], *out[TLC_STREAMS_MAX], *to = (float *)s->c->output->out + s->u->first + at;
    int add = s->c->output->mode == TLC_OUTPUT_ADD;
    size_t have[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++) {
        size_t some = have[k] = present(s, k, at, count);
        out[k] = some == count ? to + k * s->len : copy[k];
        for (size_t i = 0; add && some < count && i < count; i++)
            copy[k][i] = i < some ? to[k * s->len + i] : 0.0f;
    }
    if (add)
        s->c->fused->unpack_and_add(s->u->k, src, count, scale, out);
    else
        s->c->fused->unpack_and_write(s->u->k, src, count, scale, out);
    for (size_t k = 0; k < s->p->streams; k++)
        if (have[k] && have[k] < count)
            tlc_copy_few(to + k * s->len, copy[k], have[k] * sizeof(float));
}

/* Unpacks bytes without padding, in place. padded: bytes with padding follow them. */
static void unpack_full(const shape *s, size_t at, size_t count, const uint8_t *src, float scale, int padded,
                        streaming *parts)
{
    const tlc_fused *fused = s->c->fused;
    const tlc_output *o = s->c->output;
    float *out[TLC_STREAMS_MAX];
    tlc_lines all;

    for (size_t k = 0; k < s->p->streams; k++)
        out[k] = (float *)o->out + s->u->first + k * s->len + at;
    if (o->mode == TLC_OUTPUT_ADD)
        fused->unpack_and_add(s->u->k, src, count, scale, out);
    else if (!o->bypass)
        fused->unpack_and_write(s->u->k, src, count, scale, out);
    else {
        all.open = 0;
        fused->unpack_and_stream(s->u->k, src, count, scale, out, parts ? &parts->lines : &all,
                                 padded || !parts || parts->last);
    }
}

/* parts: not NULL if the range comes in several parts and the output bypasses the caches. All parts but the last have
 * multiples of 16 bytes. */
static void unpack(const shape *s, size_t from, size_t to, const uint8_t *src, streaming *parts)
{
    const tlc_output *o = s->c->output;
    float scale = s->u->scalars[0];

    if (o->mode == TLC_OUTPUT_ADD)
        scale *= o->weight;
    if (!s->c->fused || !s->c->fused->unpack_and_write ||
        !(o->mode == TLC_OUTPUT_WRITE || (o->mode == TLC_OUTPUT_ADD && tlc_finite(scale)))) {
        unpack_by_steps(s, from, to - from, src);
        return;
    }
    if (!tlc_is_floats(o->dtype, o->out)) {
        unpack_converted(s, from, to - from, src);
        return;
    }
    size_t end = tail_start(s, from, to);
    if (from < end || (parts && parts->lines.open))
        unpack_full(s, from, end - from, src, scale, end < to, parts);
    if (end < to)
        unpack_tail(s, end, to - end, src + (end - from), scale);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* Expands the next bytes of a shrunk payload, at most `most` and SHRUNK of them, and moves *src behind them. Near the
 * end they are copied first, because the kernel reads more bytes than it expands. */
static size_t expand(const tlc_shrinker *shrinker, const tlc_kernels *k, const uint8_t **src, const uint8_t *end,
                     size_t most, uint8_t *out)
{
    const uint8_t *in = *src;
    size_t left = (size_t)(end - in), count = tlc_smaller(left, tlc_smaller(most, SHRUNK));
    uint8_t last[SHRUNK + TLC_SHRINKER_ROOM];

    *src += count;
    if (left >= count + TLC_SHRINKER_ROOM)
        return shrinker->decode(k, in, count, out);
    memset(last + count, 0, TLC_SHRINKER_ROOM);
    tlc_copy_few(last, in, count);
    return shrinker->decode(k, last, count, out);
}

void tlc_shrunk_expand(const tlc_shrinker *shrinker, const tlc_kernels *k, const uint8_t *src, size_t len, uint8_t *dst)
{
    uint8_t part[SHRUNK * TLC_EXPANSION_MAX + TLC_SHRINKER_ROOM];

    for (const uint8_t *end = src + len; src < end;) {
        size_t count = expand(shrinker, k, &src, end, SHRUNK, part);
        memcpy(dst, part, count);
        dst += count;
    }
}

static const tlc_shrinker *shrinker_of(const tlc_coding *c)
{
    return c->codec->shrinker->shrink;
}

/* Gives back the last `excess` of the bytes that were expanded, and moves *src back to the first byte that is still to
 * be expanded. Returns how many zero bytes the byte before it still stands for. */
static uint64_t give_back(const shape *s, const uint8_t **src, size_t excess)
{
    while (excess) {
        unsigned size = shrinker_of(s->c)->expansion((*src)[-1]);
        if (size > excess)
            break;
        excess -= size;
        --*src;
    }
    return excess;
}

/* Decodes packed bytes from .. to - 1. */
static void expand_and_unpack(const shape *s, tlc_place *place, size_t from, size_t to)
{
    const uint8_t *src = s->c->payload + place->shrunk.offset, *end = s->c->payload + s->c->len;
    uint8_t packed[EXPANDED + WHOLE + SHRUNK * TLC_EXPANSION_MAX + TLC_SHRINKER_ROOM];
    size_t have = (size_t)place->shrunk.zeros;
    streaming parts;

    parts.lines.open = parts.last = 0; /* the rest is written before it is read */
    streaming *streamed = s->c->output->bypass ? &parts : NULL;
    place->shrunk.zeros = 0;
    memset(packed, s->p->zero, have);
    while (from < to) {
        while (from + have < to && have < EXPANDED)
            have += expand(shrinker_of(s->c), s->u->k, &src, end, SHRUNK, packed + have);
        if (from + have > to) {
            place->shrunk.zeros = give_back(s, &src, from + have - to);
            have = to - from;
        }
        parts.last = from + have == to;
        size_t count = parts.last ? have : have / WHOLE * WHOLE; /* not 0: have >= EXPANDED, or it is the last part */
        unpack(s, from, from + count, packed, streamed);
        from += count;
        have -= count;
        if (have) /* fewer than WHOLE bytes are left, and count is at least WHOLE: no overlap */
            memcpy(packed, packed + count, WHOLE);
    }
    place->shrunk.offset = (uint64_t)(src - s->c->payload);
}

static size_t streams(const tlc_coding *c)
{
    return tlc_codec_symbol_packer(c->codec)->streams;
}

/* Goes to packed byte `to`. */
static void skip(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    size_t left = to - from - (size_t)place->shrunk.zeros, step = PACKED;

    if (!c->codec->shrinker)
        return;
    place->shrunk.zeros = 0;
    while (left) {
        const uint8_t *src = c->payload + place->shrunk.offset;
        size_t count = tlc_smaller(step, c->len - (size_t)place->shrunk.offset);
        uint64_t size = shrinker_of(c)->size(c->unit.k, src, count);
        if (size > left && count > 1) {
            step = count / 2;
            continue;
        }
        place->shrunk.offset += count;
        place->shrunk.zeros = size > left ? size - left : 0;
        left -= size > left ? left : (size_t)size;
    }
}

static void decode(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    shape s;

    shape_of(&s, c);
    if (c->codec->shrinker)
        expand_and_unpack(&s, place, from, to);
    else
        unpack(&s, from, to, c->payload + from, NULL);
}

/* ---- many payloads ----------------------------------------------------------------------------------------------- */

enum {
    TOGETHER = 1024, /* packed bytes of each payload at a time */
    SPARSE = 8       /* from so many packed bytes on for each shrunk byte, it is faster to skip zeros in each payload */
};

/* Packed bytes from .. to - 1, at most TOGETHER: in the payload, or expanded. */
static const uint8_t *packed_part(const shape *s, tlc_place *place, size_t from, size_t to, uint8_t *expanded)
{
    const uint8_t *start = s->c->payload, *src = start + place->shrunk.offset, *end = start + s->c->len;
    size_t have = (size_t)place->shrunk.zeros, wanted = to - from;

    if (!s->c->codec->shrinker)
        return start + from;
    memset(expanded, s->p->zero, have);
    place->shrunk.zeros = 0;
    while (have < wanted) /* most likely what is missing, so that little is given back */
        have += expand(shrinker_of(s->c), s->u->k, &src, end, (wanted - have) * s->c->len / s->len + 8,
                       expanded + have);
    place->shrunk.zeros = give_back(s, &src, have - wanted);
    place->shrunk.offset = (uint64_t)(src - start);
    return expanded;
}

/* Is there a kernel for many payloads, and is it the faster way? */
static int goes_with_others(const tlc_coding *c)
{
    return c->fused && c->fused->unpack_and_add_many && tlc_finite(c->unit.scalars[0] * c->output->weight) &&
           packed_size(tlc_codec_symbol_packer(c->codec), c->unit.n) / SPARSE < c->len;
}

/* At most TLC_TOGETHER_MAX payloads. */
static void add_together(const tlc_coding *const *c, tlc_place *places, size_t count, size_t from, size_t to)
{
    uint8_t expanded[TLC_TOGETHER_MAX][TOGETHER + SHRUNK * TLC_EXPANSION_MAX + TLC_SHRINKER_ROOM];
    const uint8_t *src[TLC_TOGETHER_MAX];
    float *sum[TLC_STREAMS_MAX], scale[TLC_TOGETHER_MAX];
    shape s[TLC_TOGETHER_MAX];

    for (size_t i = 0; i < count; i++) {
        shape_of(&s[i], c[i]);
        scale[i] = c[i]->unit.scalars[0] * c[i]->output->weight;
    }
    for (size_t next; from < to; from = next) {
        next = from + tlc_smaller(to - from, TOGETHER);
        size_t end = tail_start(&s[0], from, next);
        for (size_t i = 0; i < count; i++)
            src[i] = packed_part(&s[i], &places[i], from, next, expanded[i]);
        for (size_t k = 0; k < s[0].p->streams; k++)
            sum[k] = (float *)c[0]->output->out + s[0].u->first + k * s[0].len + from;
        c[0]->fused->unpack_and_add_many(s[0].u->k, src, scale, count, end - from, sum);
        for (size_t i = 0; end < next && i < count; i++)
            unpack_tail(&s[i], end, next - end, src[i] + (end - from), scale[i]);
    }
}

static void decode_many(const tlc_coding *const *c, tlc_place *places, size_t count, size_t from, size_t to)
{
    for (size_t i = 0, some; i < count; i += some) {
        for (some = 0; some < TLC_TOGETHER_MAX && i + some < count && goes_with_others(c[i + some]);)
            some++;
        if (some > 1)
            add_together(c + i, places + i, some, from, to);
        else {
            decode(c[i], &places[i], from, to);
            some = 1;
        }
    }
}

const tlc_coder tlc_coder_of_symbols = {
    .bound = bound,
    .encode = encode,
    .check = check,
    .streams = streams,
    .skip = skip,
    .decode = decode,
    .decode_many = decode_many,
};
