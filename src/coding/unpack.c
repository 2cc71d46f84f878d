/* SPDX-License-Identifier: MIT
 *
 * Decodes payloads of symbols: expands what was shrunk, then unpacks it, from any place on. One payload, or many side
 * by side.
 */
#include "../common/stack.h"
#include "packed.h"

enum {
    SKIPPED = 4096,  /* shrunk bytes that are skipped at a time */
    SHRUNK = 128,    /* shrunk bytes that are expanded at a time */
    EXPANDED = 2048, /* packed bytes that are expanded before they are decoded: enough to be worth the call */
    CONVERTED = 512, /* values of each stream that are converted at a time: they stay in the first-level cache */
    WHOLE = 64       /* packed bytes are decoded in multiples of 64, except at the end */
};

/* ---- unpacking --------------------------------------------------------------------------------------------------- */

/* For a range that is decoded in several parts with stores past the caches. */
typedef struct uncached {
    tlc_lines lines;
    int last; /* 1 for the last part */
} uncached;

TLC_OWN_FRAME static void unpack_unfused(const tlc_packed *s, size_t at, size_t count, const uint8_t *src)
{
    int8_t symbols[TLC_STREAMS_MAX][TLC_CHUNK], *q[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++)
        q[k] = symbols[k];
    for (size_t part; count; count -= part, at += part, src += part) {
        part = tlc_smaller(count, TLC_CHUNK);
        s->p->decode(s->u->k, src, part, q);
        for (size_t k = 0; k < s->p->streams; k++)
            tlc_output_symbols(s->c->output, s->u->first + k * s->len + at, tlc_packed_present(s, k, at, part), q[k],
                               s->u->scalars[0]);
    }
}

/* Writes f16, bf16 or unaligned f32. */
TLC_OWN_FRAME static void unpack_converted(const tlc_packed *s, size_t at, size_t count, const uint8_t *src)
{
    float values[TLC_STREAMS_MAX][CONVERTED], *v[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++)
        v[k] = values[k];
    for (size_t part; count; count -= part, at += part, src += part) {
        part = tlc_smaller(count, CONVERTED);
        s->c->fused->unpack_and_write(s->u->k, src, part, s->u->scalars[0], v);
        for (size_t k = 0; k < s->p->streams; k++)
            tlc_output_values(s->c->output, s->u->first + k * s->len + at, tlc_packed_present(s, k, at, part),
                              values[k]);
    }
}

/* Unpacks the tail. Fused kernels write and add all symbols of a byte, so streams without enough values use a copy. */
static void unpack_tail(const tlc_packed *s, size_t at, size_t count, const uint8_t *src, float scale)
{
    float copy[TLC_STREAMS_MAX][TLC_TAIL], *out[TLC_STREAMS_MAX], *to = (float *)s->c->output->out + s->u->first + at;
    int add = s->c->output->mode == TLC_OUTPUT_ADD;
    size_t have[TLC_STREAMS_MAX];

    for (size_t k = 0; k < s->p->streams; k++) {
        size_t some = have[k] = tlc_packed_present(s, k, at, count);
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
static void unpack_full(const tlc_packed *s, size_t at, size_t count, const uint8_t *src, float scale, int padded,
                        uncached *parts)
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
        fused->unpack_and_write_uncached(s->u->k, src, count, scale, out, parts ? &parts->lines : &all,
                                         padded || !parts || parts->last);
    }
}

/* parts: not NULL if the range comes in several parts and the output bypasses the caches. All parts but the last have
 * multiples of 16 bytes. */
static void unpack(const tlc_packed *s, size_t from, size_t to, const uint8_t *src, uncached *parts)
{
    const tlc_output *o = s->c->output;
    float scale = s->u->scalars[0];

    if (o->mode == TLC_OUTPUT_ADD)
        scale *= o->weight;
    if (!s->c->fused || !s->c->fused->unpack_and_write ||
        !(o->mode == TLC_OUTPUT_WRITE || (o->mode == TLC_OUTPUT_ADD && tlc_finite(scale)))) {
        unpack_unfused(s, from, to - from, src);
        return;
    }
    if (!tlc_is_floats(o->dtype, o->out)) {
        unpack_converted(s, from, to - from, src);
        return;
    }
    size_t end = tlc_packed_tail(s, from, to);
    if (from < end || (parts && parts->lines.open))
        unpack_full(s, from, end - from, src, scale, end < to, parts);
    if (end < to)
        unpack_tail(s, end, to - end, src + (end - from), scale);
}

/* ---- decode ------------------------------------------------------------------------------------------------------ */

/* Expands the next bytes of a shrunk payload, at most SHRUNK of them, and moves *src past them. Near the end they are
 * copied first, because the kernel reads more bytes than it expands. */
static size_t expand(const tlc_shrinker *shrinker, const tlc_kernels *k, const uint8_t **src, const uint8_t *end,
                     uint8_t *out)
{
    const uint8_t *in = *src;
    size_t left = (size_t)(end - in), count = tlc_smaller(left, SHRUNK);
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
        size_t count = expand(shrinker, k, &src, end, part);
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
static uint64_t give_back(const tlc_packed *s, const uint8_t **src, size_t excess)
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
static void expand_and_unpack(const tlc_packed *s, tlc_place *place, size_t from, size_t to)
{
    const uint8_t *src = s->c->payload + place->shrunk.offset, *end = s->c->payload + s->c->len;
    uint8_t packed[EXPANDED + WHOLE + SHRUNK * TLC_EXPANSION_MAX + TLC_SHRINKER_ROOM];
    size_t have = (size_t)place->shrunk.zeros;
    uncached parts;

    parts.lines.open = parts.last = 0; /* the rest is written before it is read */
    uncached *bypassing = s->c->output->bypass ? &parts : NULL;
    place->shrunk.zeros = 0;
    memset(packed, s->p->zero, have);
    while (from < to) {
        while (from + have < to && have < EXPANDED)
            have += expand(shrinker_of(s->c), s->u->k, &src, end, packed + have);
        if (from + have > to) {
            place->shrunk.zeros = give_back(s, &src, from + have - to);
            have = to - from;
        }
        parts.last = from + have == to;
        size_t count = parts.last ? have : have / WHOLE * WHOLE; /* not 0: have >= EXPANDED, or it is the last part */
        unpack(s, from, from + count, packed, bypassing);
        from += count;
        have -= count;
        if (have) /* fewer than WHOLE bytes are left, and count is at least WHOLE: no overlap */
            memcpy(packed, packed + count, WHOLE);
    }
    place->shrunk.offset = (uint64_t)(src - s->c->payload);
}

/* Goes to packed byte `to`. */
void tlc_unpack_skip(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    size_t left = to - from - (size_t)place->shrunk.zeros, most = SKIPPED;

    if (!c->codec->shrinker)
        return;
    place->shrunk.zeros = 0;
    while (left) {
        const uint8_t *src = c->payload + place->shrunk.offset;
        size_t count = tlc_smaller(most, c->len - (size_t)place->shrunk.offset);
        uint64_t size = shrinker_of(c)->size(c->unit.k, src, count);
        if (size > left && count > 1) {
            most = count / 2;
            continue;
        }
        place->shrunk.offset += count;
        place->shrunk.zeros = size > left ? size - left : 0;
        left -= size > left ? left : (size_t)size;
    }
}

void tlc_unpack(const tlc_coding *c, tlc_place *place, size_t from, size_t to)
{
    tlc_packed s;

    tlc_packed_begin(&s, c);
    if (c->codec->shrinker)
        expand_and_unpack(&s, place, from, to);
    else
        unpack(&s, from, to, c->payload + from, NULL);
}

/* ---- many payloads ----------------------------------------------------------------------------------------------- */

enum { TOGETHER = 2048 }; /* packed bytes of each payload at a time */

/* Packed bytes of a shrunk payload that are expanded, but not decoded yet. */
typedef struct ahead {
    const uint8_t *src; /* the shrunk bytes after them */
    size_t have;
    uint8_t bytes[TOGETHER + SHRUNK * TLC_EXPANSION_MAX + TLC_SHRINKER_ROOM];
} ahead;

static void ahead_begin(ahead *a, const tlc_packed *s, const tlc_place *place)
{
    a->src = s->c->payload + place->shrunk.offset;
    a->have = (size_t)place->shrunk.zeros;
    memset(a->bytes, s->p->zero, a->have);
}

static void ahead_end(const ahead *a, const tlc_packed *s, tlc_place *place)
{
    const uint8_t *src = a->src;

    place->shrunk.zeros = give_back(s, &src, a->have);
    place->shrunk.offset = (uint64_t)(src - s->c->payload);
}

/* The next bytes, at most TOGETHER. */
static const uint8_t *ahead_next(ahead *a, const tlc_packed *s, size_t count)
{
    while (a->have < count)
        a->have += expand(shrinker_of(s->c), s->u->k, &a->src, s->c->payload + s->c->len, a->bytes + a->have);
    return a->bytes;
}

static void ahead_drop(ahead *a, size_t count)
{
    a->have -= count;
    memmove(a->bytes, a->bytes + count, a->have);
}

/* Do shrunk bytes stand for more than 13.75 packed ones on average? With zerorun nearly all are the longest runs then,
 * and it is faster to skip zeros in each payload. */
static int is_nearly_empty(const tlc_coding *c)
{
    return tlc_packed_size(tlc_codec_symbol_packer(c->codec), c->unit.n) / 55 * 4 > c->len;
}

/* Is there a kernel for many payloads, and is it the faster way? */
static int goes_with_others(const tlc_coding *c)
{
    return c->fused && c->fused->unpack_and_add_many && tlc_finite(c->unit.scalars[0] * c->output->weight) &&
           !is_nearly_empty(c);
}

/* At most TLC_TOGETHER_MAX payloads. */
TLC_OWN_FRAME static void add_together(const tlc_coding *const *c, tlc_place *places, size_t count, size_t from,
                                       size_t to)
{
    float *sum[TLC_STREAMS_MAX], scale[TLC_TOGETHER_MAX];
    const uint8_t *src[TLC_TOGETHER_MAX];
    tlc_packed s[TLC_TOGETHER_MAX];
    ahead a[TLC_TOGETHER_MAX];

    for (size_t i = 0; i < count; i++) {
        tlc_packed_begin(&s[i], c[i]);
        scale[i] = c[i]->unit.scalars[0] * c[i]->output->weight;
        ahead_begin(&a[i], &s[i], &places[i]);
    }
    for (size_t part; from < to; from += part) {
        part = tlc_smaller(to - from, TOGETHER);
        size_t full = tlc_packed_tail(&s[0], from, from + part) - from;
        for (size_t i = 0; i < count; i++)
            src[i] = c[i]->codec->shrinker ? ahead_next(&a[i], &s[i], part) : c[i]->payload + from;
        for (size_t k = 0; k < s[0].p->streams; k++)
            sum[k] = (float *)c[0]->output->out + s[0].u->first + k * s[0].len + from;
        c[0]->fused->unpack_and_add_many(s[0].u->k, src, scale, count, full, sum);
        for (size_t i = 0; full < part && i < count; i++)
            unpack_tail(&s[i], from + full, part - full, src[i] + full, scale[i]);
        for (size_t i = 0; i < count; i++)
            if (c[i]->codec->shrinker)
                ahead_drop(&a[i], part);
    }
    for (size_t i = 0; i < count; i++)
        if (c[i]->codec->shrinker)
            ahead_end(&a[i], &s[i], &places[i]);
}

void tlc_unpack_many(const tlc_coding *const *c, tlc_place *places, size_t count, size_t from, size_t to)
{
    for (size_t i = 0, some; i < count; i += some) {
        for (some = 0; some < TLC_TOGETHER_MAX && i + some < count && goes_with_others(c[i + some]);)
            some++;
        if (some > 1)
            add_together(c + i, places + i, some, from, to);
        else {
            tlc_unpack(c[i], &places[i], from, to);
            some = 1;
        }
    }
}
