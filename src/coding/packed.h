/* SPDX-License-Identifier: MIT
 *
 * A unit as packed bytes: what encoding and decoding of symbols share. Each symbol of a byte comes from another stream.
 * The streams are contiguous partitions of len = ceil(n / streams) values of the unit. In the last few bytes some
 * streams have no values left. Their digit there is 0: padding.
 */
#ifndef TLC_PACKED_H
#define TLC_PACKED_H

#include "coder.h"

/* The last bytes, up to this many, may have padding and are coded separately: a vector costs as much as four bytes. */
enum { TLC_TAIL = 16 };

typedef struct tlc_packed {
    const tlc_coding *c;
    const tlc_unit *u;
    const tlc_packer *p;
    size_t len, full; /* how many packed bytes; how many without padding, which come first */
} tlc_packed;

static inline uint64_t tlc_packed_size(const tlc_packer *p, uint64_t n)
{
    return tlc_ceil_div(n, p->streams);
}

static inline void tlc_packed_begin(tlc_packed *s, const tlc_coding *c)
{
    s->c = c;
    s->u = &c->unit;
    s->p = tlc_codec_symbol_packer(c->codec);
    s->len = (size_t)tlc_packed_size(s->p, c->unit.n);
    size_t padding = s->p->streams * s->len - (size_t)c->unit.n;
    s->full = padding < s->len ? s->len - padding : 0;
}

/* How many of the count values of a stream, from byte `at` on, there are. */
static inline size_t tlc_packed_present(const tlc_packed *s, size_t stream, size_t at, size_t count)
{
    size_t index = stream * s->len + at, left = index < s->u->n ? (size_t)s->u->n - index : 0;
    return count < left ? count : left;
}

/* Where the bytes begin that are coded separately. A range without padding has none. */
static inline size_t tlc_packed_tail(const tlc_packed *s, size_t from, size_t to)
{
    if (to <= s->full)
        return to;
    return to - from > TLC_TAIL ? to - TLC_TAIL : from;
}

/* unpack.c: the decoding functions of tlc_coder. */
void tlc_unpack_skip(const tlc_coding *c, tlc_place *place, size_t from, size_t to);
void tlc_unpack(const tlc_coding *c, tlc_place *place, size_t from, size_t to);
#endif
