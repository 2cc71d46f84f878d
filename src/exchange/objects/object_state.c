/* SPDX-License-Identifier: MIT */
#include "object_state.h"
#include "../../frames/frame.h"
#include "../../api/context.h"

static const char magic[4] = {'T', 'L', 'C', 'X'};

/* ---- save -------------------------------------------------------------------------------------------------------- */

/* The entry of part p. Returns 0 if the object does not send it. */
static int entry_of(const tlc_sender *s, size_t p, tlc_state_entry *e)
{
    int shared;
    const tlc_ctx *ctx = tlc_sender_context(s, p, &shared);
    const tlc_ownership_part *part = tlc_sender_part(s, p);
    const tlc_setup_tensor *t = &s->x->tensors[part->tensor];

    if (!ctx)
        return 0;
    *e = (tlc_state_entry){.pull = s->direction == TLC_PULL,
                           .name = (const uint8_t *)t->name,
                           .name_len = strlen(t->name),
                           .n = t->n,
                           .first = part->first,
                           .count = part->n,
                           .codec = ctx->codec_text,
                           .codec_len = strlen(ctx->codec_text),
                           .residual = (const uint8_t *)s->residual[p]};
    return 1;
}

static size_t entry_size(const tlc_state_entry *e)
{
    return 1 + tlc_varint_size(e->name_len) + e->name_len + tlc_varint_size(e->n) + tlc_varint_size(e->first) +
           tlc_varint_size(e->count) + tlc_varint_size(e->codec_len) + e->codec_len +
           (e->residual ? (size_t)e->count * sizeof(float) : 0);
}

/* residual of an entry that is saved: floats of this machine. */
static size_t write_entry(uint8_t *p, const tlc_state_entry *e)
{
    size_t at = 1;

    p[0] = (uint8_t)((e->pull ? TLC_ENTRY_PULL : 0) | (e->residual ? TLC_ENTRY_RESIDUAL : 0));
    at += tlc_write_text(p + at, e->name, e->name_len);
    at += tlc_varint_write(p + at, e->n);
    at += tlc_varint_write(p + at, e->first);
    at += tlc_varint_write(p + at, e->count);
    at += tlc_write_text(p + at, e->codec, e->codec_len);
    if (e->residual) {
        tlc_copy_le(p + at, e->residual, (size_t)e->count, sizeof(float));
        at += (size_t)e->count * sizeof(float);
    }
    return at;
}

/* Goes over the entries of both senders. Writes them to p; if p is NULL, only adds up their sizes. Returns the bytes.
 * *entries: how many. */
static size_t write_entries(const tlc_object *o, uint8_t *p, size_t *entries)
{
    const tlc_sender *senders[] = {o->push, o->pull};
    size_t at = 0;
    tlc_state_entry e;

    *entries = 0;
    for (int d = 0; d < 2; d++)
        for (size_t i = 0; senders[d] && i < senders[d]->part_count; i++)
            if (entry_of(senders[d], i, &e)) {
                at += p ? write_entry(p + at, &e) : entry_size(&e);
                ++*entries;
            }
    return at;
}

/* The steps in which pushes were taken: writes them to p, or adds up their sizes if p is NULL. Returns the bytes. */
static size_t write_taken(const tlc_object *o, uint8_t *p)
{
    size_t bytes = 0;

    for (uint32_t w = 0; o->taken && w < o->x->cfg.workers; w++)
        bytes += p ? tlc_varint_write(p + bytes, o->taken[w]) : tlc_varint_size(o->taken[w]);
    return bytes;
}

size_t tlc_object_state_size(const tlc_object *o)
{
    size_t entries, size = write_entries(o, NULL, &entries) + write_taken(o, NULL);

    return TLC_STATE_FIXED + tlc_varint_size(o->x->cfg.workers) + tlc_varint_size(o->x->cfg.servers) +
           tlc_varint_size(o->x->rank) + tlc_varint_size(entries) + sizeof o->history + size + TLC_CHECKSUM_SIZE;
}

tlc_status tlc_object_state_save(const tlc_object *o, void *dst, size_t cap, size_t *written)
{
    const tlc_setup *x = o->x;
    uint8_t *p = dst;
    size_t at = TLC_STATE_FIXED, entries;

    tlc_status status = tlc_save_check(x, dst, cap, written, tlc_object_state_size(o));
    if (status)
        return status;
    memcpy(p, magic, sizeof magic);
    p[4] = TLC_STATE_VERSION;
    p[5] = (uint8_t)(x->kind | x->role << 4);
    p[6] = (uint8_t)x->cfg.sum;
    p[7] = 0;
    tlc_store64(p + 8, o->step);
    (void)write_entries(o, NULL, &entries);
    at += tlc_varint_write(p + at, x->cfg.workers);
    at += tlc_varint_write(p + at, x->cfg.servers);
    at += tlc_varint_write(p + at, x->rank);
    at += tlc_varint_write(p + at, entries);
    tlc_store64(p + at, o->history);
    at += sizeof o->history;
    at += write_entries(o, p + at, &entries);
    at += write_taken(o, p + at);
    tlc_store32(p + at, tlc_checksum(p, at));
    *written = at + TLC_CHECKSUM_SIZE;
    return TLC_OK;
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

tlc_status tlc_state_head(tlc_state *s, tlc_message message)
{
    *s = (tlc_state){.in = {message.data, message.data ? message.len : 0, TLC_STATE_FIXED}};
    if (s->in.len < TLC_STATE_FIXED + 4 + TLC_CHECKSUM_SIZE || memcmp(s->in.p, magic, sizeof magic) != 0)
        return TLC_ERR_CORRUPT;
    const unsigned version = s->in.p[4];
    if (version < 1 || version > TLC_STATE_VERSION)
        return TLC_ERR_VERSION;
    s->in.len -= TLC_CHECKSUM_SIZE;
    s->kind = s->in.p[5] & 15;
    s->role = s->in.p[5] >> 4;
    s->sum = s->in.p[6];
    s->step = tlc_load64(s->in.p + 8);
    if (!tlc_read_number(&s->in, &s->workers) || !tlc_read_number(&s->in, &s->servers) ||
        !tlc_read_number(&s->in, &s->rank) || !tlc_read_number(&s->in, &s->entries) || s->in.p[7] ||
        !tlc_step_starts(s->step) || (version > 1 && !tlc_read_u64(&s->in, &s->history)))
        return TLC_ERR_CORRUPT;
    return TLC_OK;
}

int tlc_state_next(tlc_state *s, tlc_state_entry *e)
{
    const uint8_t *codec;
    unsigned flags;

    if (!s->in.p || s->in.at == s->in.len)
        return 0;
    flags = s->in.p[s->in.at++];
    if (flags > (TLC_ENTRY_PULL | TLC_ENTRY_RESIDUAL) || !tlc_read_bytes(&s->in, 1, &e->name, &e->name_len) ||
        !e->name_len || !tlc_read_number(&s->in, &e->n) || !tlc_read_number(&s->in, &e->first) ||
        !tlc_read_number(&s->in, &e->count) || e->first > e->n || e->count > e->n - e->first ||
        !tlc_read_bytes(&s->in, 1, &codec, &e->codec_len))
        return 0;
    e->pull = (flags & TLC_ENTRY_PULL) != 0;
    e->codec = (const char *)codec;
    e->residual = NULL;
    if (flags & TLC_ENTRY_RESIDUAL) {
        if (e->count > (s->in.len - s->in.at) / sizeof(float))
            return 0;
        e->residual = s->in.p + s->in.at;
        s->in.at += (size_t)e->count * sizeof(float);
    }
    return 1;
}
