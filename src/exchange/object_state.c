/* SPDX-License-Identifier: MIT */
#include "object_state.h"
#include "../codec/codec.h"
#include "../coding/frame.h"
#include "../context.h"
#include "reader.h"

#define STATE_VERSION 1
#define FIXED 16 /* bytes before the numbers of the head */

enum { ENTRY_PULL = 1, ENTRY_RESIDUAL = 2 };

static const char magic[4] = {'T', 'L', 'C', 'X'};

/* A part of a tensor in a state. */
typedef struct entry {
    int pull;            /* of answers */
    const uint8_t *name; /* name_len bytes */
    size_t name_len;
    uint64_t n, first, count;
    const char *codec; /* codec_len bytes */
    size_t codec_len;
    const uint8_t *residual; /* count f32, or NULL */
} entry;

/* ---- save -------------------------------------------------------------------------------------------------------- */

/* The entry of part p. Returns 0 if the object does not send it. */
static int entry_of(const tlc_sender *s, size_t p, entry *e)
{
    int shared;
    const tlc_ctx *ctx = tlc_sender_context(s, p, &shared);
    const tlc_ownership_part *part = tlc_sender_part(s, p);
    const tlc_setup_tensor *t = &s->x->tensors[part->tensor];

    if (!ctx)
        return 0;
    *e = (entry){.pull = s->direction == TLC_PULL,
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

static size_t entry_size(const entry *e)
{
    return 1 + tlc_varint_size(e->name_len) + e->name_len + tlc_varint_size(e->n) + tlc_varint_size(e->first) +
           tlc_varint_size(e->count) + tlc_varint_size(e->codec_len) + e->codec_len +
           (e->residual ? (size_t)e->count * sizeof(float) : 0);
}

/* residual of an entry that is saved: floats of this machine. */
static size_t write_entry(uint8_t *p, const entry *e)
{
    size_t at = 1;

    p[0] = (uint8_t)((e->pull ? ENTRY_PULL : 0) | (e->residual ? ENTRY_RESIDUAL : 0));
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

/* Goes over the entries of both senders: writes them to p, or only adds up their sizes if p is NULL. Returns the bytes.
 * *entries: how many. */
static size_t write_entries(const tlc_object *o, uint8_t *p, size_t *entries)
{
    const tlc_sender *senders[] = {o->push, o->pull};
    size_t at = 0;
    entry e;

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

    return FIXED + tlc_varint_size(o->x->cfg.workers) + tlc_varint_size(o->x->cfg.servers) +
           tlc_varint_size(o->x->rank) + tlc_varint_size(entries) + size + TLC_CHECKSUM_SIZE;
}

tlc_status tlc_object_state_save(const tlc_object *o, void *dst, size_t cap, size_t *written)
{
    const tlc_setup *x = o->x;
    uint8_t *p = dst;
    size_t at = FIXED, entries;

    if (!dst || !written)
        return TLC_ERR_PARAM;
    if (cap < tlc_object_state_size(o))
        return TLC_ERR_CAPACITY;
    memcpy(p, magic, sizeof magic);
    p[4] = STATE_VERSION;
    p[5] = (uint8_t)(x->kind | x->role << 4);
    p[6] = (uint8_t)x->cfg.sum;
    p[7] = 0;
    tlc_store64(p + 8, o->step);
    (void)write_entries(o, NULL, &entries);
    at += tlc_varint_write(p + at, x->cfg.workers);
    at += tlc_varint_write(p + at, x->cfg.servers);
    at += tlc_varint_write(p + at, x->rank);
    at += tlc_varint_write(p + at, entries);
    at += write_entries(o, p + at, &entries);
    at += write_taken(o, p + at);
    tlc_store32(p + at, tlc_checksum(p, at));
    *written = at + TLC_CHECKSUM_SIZE;
    return TLC_OK;
}

/* ---- read -------------------------------------------------------------------------------------------------------- */

typedef struct state {
    tlc_reader in; /* without the checksum; at the next entry */
    uint64_t step, workers, servers, rank, entries;
} state;

static tlc_status read_head(state *s, tlc_message message)
{
    *s = (state){.in = {message.data, message.data ? message.len : 0, FIXED}};
    if (s->in.len < FIXED + 4 + TLC_CHECKSUM_SIZE || memcmp(s->in.p, magic, sizeof magic) != 0)
        return TLC_ERR_CORRUPT;
    if (s->in.p[4] != STATE_VERSION)
        return TLC_ERR_VERSION;
    s->in.len -= TLC_CHECKSUM_SIZE;
    s->step = tlc_load64(s->in.p + 8);
    if (!tlc_read_number(&s->in, &s->workers) || !tlc_read_number(&s->in, &s->servers) ||
        !tlc_read_number(&s->in, &s->rank) || !tlc_read_number(&s->in, &s->entries) || s->in.p[7] ||
        !tlc_step_valid(s->step))
        return TLC_ERR_CORRUPT;
    return TLC_OK;
}

static int read_entry(state *s, entry *e)
{
    const uint8_t *codec;
    unsigned flags;

    if (!s->in.p || s->in.at == s->in.len)
        return 0;
    flags = s->in.p[s->in.at++];
    if (flags > (ENTRY_PULL | ENTRY_RESIDUAL) || !tlc_read_bytes(&s->in, 1, &e->name, &e->name_len) || !e->name_len ||
        !tlc_read_number(&s->in, &e->n) || !tlc_read_number(&s->in, &e->first) || !tlc_read_number(&s->in, &e->count) ||
        e->first > e->n || e->count > e->n - e->first || !tlc_read_bytes(&s->in, 1, &codec, &e->codec_len))
        return 0;
    e->pull = (flags & ENTRY_PULL) != 0;
    e->codec = (const char *)codec;
    e->residual = NULL;
    if (flags & ENTRY_RESIDUAL) {
        if (e->count > (s->in.len - s->in.at) / sizeof(float))
            return 0;
        e->residual = s->in.p + s->in.at;
        s->in.at += (size_t)e->count * sizeof(float);
    }
    return 1;
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

typedef struct loading {
    tlc_object *o;
    const tlc_message *states;
    size_t count;
    tlc_report *report;
    uint64_t workers; /* of the old run */
} loading;

static tlc_status fail(loading *l, tlc_reason reason, size_t number, tlc_status cause)
{
    tlc_finding f = tlc_finding_of(reason);

    f.got = number;
    f.cause = cause ? cause : f.cause;
    tlc_report_set(l->report, l->o->step, f.cause, &f);
    return f.cause;
}

/* Are the pushes of this state, in this tensor, for this object? */
static int is_ours(const loading *l, const state *s, const tlc_setup_tensor *t)
{
    return t->only || s->rank % l->o->x->cfg.workers == l->o->x->rank;
}

/* Checks the head of state i, and that it fits to those before. */
static tlc_status check_head(loading *l, size_t i, state *s)
{
    const tlc_setup *x = l->o->x;
    tlc_status status = read_head(s, l->states[i]);
    state other;

    if (!status && tlc_load32(s->in.p + s->in.len) != tlc_checksum(s->in.p, s->in.len))
        status = TLC_ERR_CHECKSUM;
    if (status) {
        (void)fail(l, TLC_REASON_STATE, i, status);
        return status;
    }
    if (i == 0)
        l->workers = s->workers;
    if (s->in.p[5] != (uint8_t)(x->kind | x->role << 4) || s->in.p[6] != x->cfg.sum || s->workers != l->workers ||
        !s->workers)
        return fail(l, TLC_REASON_STATE_KIND, i, TLC_OK);
    for (size_t before = 0; before < i; before++) {
        (void)read_head(&other, l->states[before]);
        int same_rank = other.rank == s->rank, same_step = other.step == s->step || x->role == TLC_ROLE_WORKER;
        if (!same_rank && same_step)
            continue;
        tlc_status wrong = fail(l, same_rank ? TLC_REASON_STATE_TWICE : TLC_REASON_STATE_STEP, 0, TLC_OK);
        l->report->finding.role = x->role;
        l->report->finding.rank = (uint32_t)s->rank;
        l->report->finding.got = s->step;
        l->report->step = other.step;
        return wrong;
    }
    return TLC_OK;
}

/* Does the codec of an entry fit to all parts of the tensor that this object sends? set: changes it. */
static tlc_status adopt_codec(const tlc_sender *s, size_t tensor, const entry *e, int set)
{
    char text[TLC_CODEC_TEXT];
    tlc_status status = TLC_OK;
    tlc_codec codec;

    if (!s)
        return TLC_OK;
    if (tlc_codec_parse(&codec, e->codec, e->codec_len, NULL)) /* fails for a NUL or a long text */
        return TLC_ERR_CORRUPT;
    memcpy(text, e->codec, e->codec_len);
    text[e->codec_len] = 0;
    for (size_t p = 0; !status && p < s->part_count; p++) {
        int shared;
        tlc_ctx *ctx = tlc_sender_context(s, p, &shared);
        if (tlc_sender_part(s, p)->tensor == tensor && ctx && !shared)
            status = set ? tlc_set_codec(ctx, text) : tlc_codec_fits(ctx, text);
    }
    return status;
}

/* Does this object keep a residual for the entry? */
static int has_place(const tlc_sender *s, size_t tensor)
{
    for (size_t p = 0; s && p < s->part_count; p++)
        if (tlc_sender_part(s, p)->tensor == tensor && tlc_sender_context(s, p, &(int){0}))
            return s->residual[p] != NULL;
    return 1; /* another rank has it */
}

/* Reads what is behind the entries. Returns 0 if it is not what must be there. own: takes it over. */
static int read_taken(const tlc_object *o, state *s, int own)
{
    for (uint64_t w = 0; o->taken && w < s->workers; w++) {
        uint64_t step;
        if (!tlc_read_number(&s->in, &step))
            return 0;
        if (own)
            o->taken[w] = step;
    }
    return s->in.at == s->in.len;
}

/* Checks the entries of state i, whose head was checked. */
static tlc_status check_entries(loading *l, size_t i, state *s, tlc_report *notes)
{
    const tlc_setup *x = l->o->x;
    entry e;

    for (uint64_t k = 0; k < s->entries; k++) {
        if (!read_entry(s, &e))
            return fail(l, TLC_REASON_STATE, i, TLC_ERR_CORRUPT);
        size_t t = tlc_setup_find(x, (const char *)e.name, e.name_len);
        const tlc_sender *sender = e.pull ? l->o->pull : l->o->push;
        if (t == TLC_ALL) {
            tlc_report_unknown(notes, e.name, e.name_len);
            continue;
        }
        if (e.n != x->tensors[t].n) {
            tlc_status status = fail(l, TLC_REASON_STATE_SIZE, i, TLC_OK);
            l->report->finding.tensor = t;
            return status;
        }
        tlc_status status = adopt_codec(sender, t, &e, 0);
        if (status) {
            (void)fail(l, TLC_REASON_STATE_CODEC, i, status);
            l->report->finding.tensor = t;
            return status;
        }
        if (e.residual && !has_place(sender, t))
            tlc_report_unknown(notes, e.name, e.name_len);
        x->seen[t] = 1;
    }
    return read_taken(l->o, s, 0) ? TLC_OK : fail(l, TLC_REASON_STATE, i, TLC_ERR_CORRUPT);
}

/* To binary32. What is beyond the largest float becomes the largest float, so that residuals stay finite. */
static float narrow(double x)
{
    return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : (float)x;
}

/* Copies or adds what an entry has of part p. */
static void take_values(const tlc_sender *s, size_t p, const entry *e, int add)
{
    const tlc_ownership_part *part = tlc_sender_part(s, p);
    uint64_t from = part->first > e->first ? part->first : e->first;
    uint64_t part_end = part->first + part->n, entry_end = e->first + e->count;
    uint64_t to = part_end < entry_end ? part_end : entry_end;

    for (uint64_t i = from; i < to; i++) {
        float value = tlc_bits_float(tlc_load32(e->residual + (size_t)(i - e->first) * sizeof(float)));
        float *r = &s->residual[p][i - part->first];
        *r = add ? narrow((double)*r + value) : value;
    }
}

static void take_entry(const loading *l, size_t i, const state *s, const entry *e)
{
    const tlc_setup *x = l->o->x;
    const tlc_sender *sender = e->pull ? l->o->pull : l->o->push;
    size_t t = tlc_setup_find(x, (const char *)e->name, e->name_len);

    if (t == TLC_ALL || !sender)
        return;
    (void)adopt_codec(sender, t, e, 1);
    if (!e->residual || (!e->pull && !is_ours(l, s, &x->tensors[t])))
        return;
    int add = !e->pull && x->seen[t] && x->seen[t] != i + 1;
    if (!e->pull && !x->seen[t])
        x->seen[t] = i + 1;
    for (size_t p = 0; p < sender->part_count; p++)
        if (tlc_sender_part(sender, p)->tensor == t && sender->residual[p])
            take_values(sender, p, e, add);
}

/* All residuals: to 0, or times a factor where one worker's part in a mean has changed. */
static void set_residuals(const tlc_sender *s, float factor)
{
    for (size_t p = 0; p < s->part_count; p++) {
        const tlc_ownership_part *part = tlc_sender_part(s, p);
        float *r = s->residual[p];
        if (!r)
            continue;
        if (factor <= 0)
            memset(r, 0, part->n * sizeof *r);
        else if (!s->x->tensors[part->tensor].only)
            for (size_t i = 0; i < part->n; i++)
                r[i] = narrow((double)r[i] * factor);
    }
}

/* Is this the state of the same object of a run with as many ranks? */
static int same_run(const tlc_setup *x, const state *s)
{
    return s->rank == x->rank && s->workers == x->cfg.workers && s->servers == x->cfg.servers;
}

/* Applies states that were checked. */
static void apply(loading *l)
{
    const tlc_setup *x = l->o->x;
    tlc_sender *senders[] = {l->o->push, l->o->pull};
    uint64_t used = 0, latest = 0;
    state s;
    entry e;

    for (int d = 0; d < 2; d++)
        if (senders[d]) {
            set_residuals(senders[d], 0);
            tlc_sender_forget(senders[d]);
        }
    memset(x->seen, 0, x->count * sizeof *x->seen);
    if (l->o->taken)
        memset(l->o->taken, 0, x->cfg.workers * sizeof *l->o->taken);
    for (size_t i = 0; i < l->count; i++) {
        (void)read_head(&s, l->states[i]);
        latest = s.step > latest ? s.step : latest;
        if (s.rank % x->cfg.workers == x->rank && s.step > used)
            used = s.step;
        for (uint64_t k = 0; k < s.entries && read_entry(&s, &e); k++)
            take_entry(l, i, &s, &e);
        /* only a server that goes on as it was can be asked for pushes of before */
        (void)read_taken(l->o, &s, same_run(x, &s));
    }
    l->o->step = used ? used : latest;
    if (!x->cfg.sum && l->workers != x->cfg.workers && l->o->push)
        set_residuals(l->o->push, (float)((double)x->cfg.workers / (double)l->workers));
}

tlc_status tlc_object_state_load(tlc_object *o, const tlc_message *states, size_t count, tlc_report *report)
{
    loading l = {.o = o, .states = states, .count = count, .report = report};
    tlc_report notes = {.unknown = 0};
    const tlc_setup *x = o->x;
    tlc_status status = TLC_OK;
    state s;

    if (!states || !count) {
        (void)fail(&l, TLC_REASON_ARGUMENT, 0, TLC_OK);
        return TLC_ERR_PARAM;
    }
    memset(x->seen, 0, x->count * sizeof *x->seen);
    for (size_t i = 0; !status && i < count; i++) {
        status = check_head(&l, i, &s);
        if (!status)
            status = check_entries(&l, i, &s, &notes);
    }
    if (status)
        return status;
    tlc_finding names = tlc_finding_of(TLC_REASON_NAMES);
    for (size_t t = x->count; t-- > 0;)
        if (x->tensors[t].n && !x->seen[t]) {
            notes.missing++;
            names.tensor = t;
        }
    tlc_float_mode mode = tlc_float_enter();
    apply(&l);
    tlc_float_leave(mode);
    tlc_report_set(report, o->step, TLC_OK, &names);
    report->unknown = notes.unknown;
    report->missing = notes.missing;
    memcpy(report->unknown_name, notes.unknown_name, sizeof report->unknown_name);
    return TLC_OK;
}
