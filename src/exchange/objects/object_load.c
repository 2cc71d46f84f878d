/* SPDX-License-Identifier: MIT
 *
 * Objects go on from states: of their own, or of all ranks of a run.
 */
#include "../../codec/codec.h"
#include "../../frames/frame.h"
#include "../../api/context.h"
#include "missing_states.h"
#include "object_state.h"

/* ---- check ------------------------------------------------------------------------------------------------------- */

enum { MARK = 2 }; /* in `seen`, of which bit 0 says that a state has the tensor */

typedef struct loading {
    tlc_object *o;
    const tlc_message *states;
    size_t count;
    tlc_report *report;        /* the object's first */
    uint64_t workers, servers; /* of the old run */
    uint64_t step;             /* of state 0 */
    int distinct;              /* no rank has two states */
    int of_all;                /* states of all its ranks are given */
    int own_given, lost;
} loading;

/* State i cannot be read. */
static tlc_status fail(const loading *l, size_t i, tlc_status status)
{
    return tlc_refuse_state(l->o->x, TLC_ALL, status, i, l->states[i]);
}

/* Two states are not of one run: state s, and `other` before it. */
static tlc_status fail_pair(const loading *l, tlc_reason reason, const tlc_state *s, const tlc_state *other)
{
    tlc_finding f = tlc_finding_of(reason);

    f.role = l->o->x->role;
    f.rank = (uint32_t)s->rank;
    f.got = s->step;
    tlc_report_set(l->report, other->step, f.cause, &f);
    tlc_report_share(l->o->x);
    return f.cause;
}

/* Are the pushes of this state, in this tensor, for this object? */
static int is_ours(const loading *l, const tlc_state *s, const tlc_setup_tensor *t)
{
    return t->pusher || s->rank % l->o->x->cfg.workers == l->o->x->rank;
}

/* How many objects of this role a run has. */
static uint64_t ranks_of(const tlc_setup *x, uint64_t workers, uint64_t servers)
{
    return x->role == TLC_ROLE_SERVER ? servers : workers;
}

/* Is state i of an object of this sort, and of the same run as those before? */
static tlc_status check_kind(const loading *l, size_t i, const tlc_state *s)
{
    const tlc_setup *x = l->o->x;

    if (s->kind != (unsigned)x->kind || s->role != (unsigned)x->role)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "state %zu is of a %s in %s, not of a %s in %s", i,
                          s->role <= TLC_ROLE_SERVER ? tlc_role_word((tlc_role)s->role) : "unknown",
                          s->kind - 1 < TLC_EXCHANGE_SERVERS ? tlc_kind_words((tlc_exchange_kind)s->kind)
                                                             : "another kind",
                          tlc_role_word(x->role), tlc_kind_words(x->kind));
    if (s->sum != (unsigned)x->cfg.sum)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "state %zu is of a run with sum %u, here sum is %u", i, s->sum,
                          (unsigned)x->cfg.sum);
    if (s->rank >= ranks_of(x, s->workers, s->servers) || !s->workers)
        return fail(l, i, TLC_ERR_CORRUPT);
    if (s->workers != l->workers || s->servers != l->servers)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL,
                          "state %zu is of a run of %llu workers and %llu servers, state 0 of one of %llu and %llu", i,
                          (unsigned long long)s->workers, (unsigned long long)s->servers,
                          (unsigned long long)l->workers, (unsigned long long)l->servers);
    return TLC_OK;
}

/* Marks the tensors of a state that are here, or takes the marks away. */
static void mark(const tlc_setup *x, tlc_state s, int on)
{
    tlc_state_entry e;

    for (uint64_t k = 0; k < s.entries && tlc_state_next(&s, &e); k++) {
        size_t t = tlc_setup_find(x, (const char *)e.name, e.name_len);
        if (t != TLC_ALL)
            x->loaded[t].seen = on ? x->loaded[t].seen | MARK : x->loaded[t].seen & ~(size_t)MARK;
    }
}

/* Do two states share no tensor that is here, as those of two objects of a rank do? */
static int are_apart(const tlc_setup *x, tlc_state s, tlc_state other)
{
    int apart = 1;
    tlc_state_entry e;

    mark(x, other, 1);
    for (uint64_t k = 0; k < s.entries && tlc_state_next(&s, &e); k++) {
        size_t t = tlc_setup_find(x, (const char *)e.name, e.name_len);
        apart &= t == TLC_ALL || !(x->loaded[t].seen & MARK);
    }
    mark(x, other, 0);
    return apart;
}

/* Does state i fit those before, which fit each other? */
static tlc_status check_pairs(const loading *l, size_t i, const tlc_state *s)
{
    const int any_step = l->o->x->role == TLC_ROLE_WORKER;
    tlc_state other;

    if (l->distinct && (any_step || s->step == l->step))
        return TLC_OK;
    for (size_t before = 0; before < i; before++) {
        (void)tlc_state_head(&other, l->states[before]);
        int same_rank = other.rank == s->rank, same_step = other.step == s->step || any_step;
        if (same_rank ? other.step == s->step && are_apart(l->o->x, *s, other) : same_step)
            continue;
        return fail_pair(l, same_rank ? TLC_REASON_STATE_TWICE : TLC_REASON_STATE_STEP, s, &other);
    }
    return TLC_OK;
}

/* Checks the head of state i, and that it fits those before. */
static tlc_status check_head(loading *l, size_t i, tlc_state *s)
{
    const tlc_setup *x = l->o->x;
    tlc_status status = tlc_state_head(s, l->states[i]);

    if (!status && tlc_load32(s->in.p + s->in.len) != tlc_checksum(s->in.p, s->in.len))
        status = TLC_ERR_CHECKSUM;
    if (status)
        return fail(l, i, status);
    if (i == 0) {
        l->workers = s->workers;
        l->servers = s->servers;
        l->step = s->step;
    }
    status = check_kind(l, i, s);
    if (status)
        return status;
    l->own_given |= s->rank == x->rank;
    return check_pairs(l, i, s);
}

/* Does the codec of an entry of state i fit all parts of the tensor that this object sends? All pushes of a tensor have
 * the same one. */
static tlc_status check_codec(const loading *l, size_t i, const tlc_sender *s, size_t tensor, const tlc_state_entry *e)
{
    tlc_loaded *before = &l->o->x->loaded[tensor];
    const int again = !e->pull && before->state == i + 1;
    char text[TLC_CODEC_TEXT];

    if (!s)
        return TLC_OK;
    if (again && before->codec_len == e->codec_len && memcmp(before->codec, e->codec, e->codec_len) == 0)
        return TLC_OK;
    if (again || !tlc_codec_copy(e->codec, e->codec_len, text))
        return tlc_refuse_state(s->x, tensor, TLC_ERR_CORRUPT, i, l->states[i]);
    const tlc_parts parts = tlc_sender_parts_of(s, tensor);
    for (size_t k = 0; k < parts.count; k++) {
        int shared;
        tlc_ctx *ctx = tlc_sender_context(s, tlc_parts_at(&parts, k), &shared);
        if (!ctx || shared)
            continue;
        tlc_status status = tlc_codec_fits(ctx, text);
        if (status)
            return tlc_refuse(s->x, status, tensor,
                              "the codec of state %zu, \"%.40s\", does not fit here, where there is \"%.40s\"; "
                              "name it in reserve",
                              i, text, ctx->codec_text);
    }
    if (!e->pull) {
        before->state = i + 1;
        before->codec = e->codec;
        before->codec_len = e->codec_len;
    }
    return TLC_OK;
}

/* Sets it. All parts of a tensor have the same one. */
static void adopt_codec(const tlc_sender *s, size_t tensor, const tlc_state_entry *e)
{
    const tlc_parts parts = tlc_sender_parts_of(s, tensor);
    char text[TLC_CODEC_TEXT];

    if (!tlc_codec_copy(e->codec, e->codec_len, text))
        return;
    for (size_t k = 0; k < parts.count; k++) {
        int shared;
        tlc_ctx *ctx = tlc_sender_context(s, tlc_parts_at(&parts, k), &shared);
        if (!ctx || shared || strcmp(ctx->codec_text, text) == 0)
            return;
        (void)tlc_set_codec(ctx, text);
    }
}

/* Counts the values of an entry that this owner's part of the tensor has, too. */
static void cover(const tlc_sender *s, size_t tensor, const tlc_state_entry *e)
{
    const tlc_parts parts = s ? tlc_entry_parts(s, tlc_sender_parts_of(s, tensor), e) : (tlc_parts){.count = 0};

    for (size_t k = 0; k < parts.count; k++)
        s->x->loaded[tensor].covered += (size_t)tlc_entry_overlap(tlc_sender_part(s, tlc_parts_at(&parts, k)), e);
}

static uint64_t rank_of(tlc_message message)
{
    tlc_state s;

    (void)tlc_state_head(&s, message);
    return s.rank;
}

/* The states, where those of all ranks are needed. */
static tlc_given_states all_of(const loading *l)
{
    return (tlc_given_states){l->states, l->count, ranks_of(l->o->x, l->workers, l->servers), TLC_NOBODY, rank_of};
}

static int as_many_ranks(const loading *l)
{
    const tlc_setup *x = l->o->x;

    return ranks_of(x, l->workers, l->servers) == ranks_of(x, x->cfg.workers, x->cfg.servers);
}

/* Is there a residual for the entry, of this object or of another one? */
static int has_place(const loading *l, const tlc_sender *s, size_t tensor, const tlc_state_entry *e)
{
    const tlc_setup *x = l->o->x;
    const uint32_t pusher = x->tensors[tensor].pusher;
    const tlc_parts parts = s ? tlc_sender_parts_of(s, tensor) : (tlc_parts){.count = 0};

    if (parts.count && tlc_sender_context(s, tlc_parts_at(&parts, 0), &(int){0})) /* or of none */
        return s->residual[tlc_parts_at(&parts, 0)] != NULL;
    /* A push that became that of one worker alone, which must have been given this state, too. With as many ranks as
     * before, each needs its own state only. */
    if (e->pull || !pusher || pusher == x->rank + 1 || l->of_all)
        return 1;
    return l->lost && !(as_many_ranks(l) && l->own_given && l->count == 1);
}

/* Reads what follows the entries. Returns 0 if it is not what must be there. own: takes it over. */
static int read_taken(const tlc_object *o, tlc_state *s, int own)
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

/* Is state i, which has a tensor, of the run of those before that have it? All workers, or all ranks, get the same
 * messages in a step. */
static tlc_status check_history(const loading *l, size_t i, const tlc_state *s, size_t tensor)
{
    const tlc_setup *x = l->o->x;
    tlc_loaded *loaded = &x->loaded[tensor];
    tlc_state other;

    if (!s->history || x->role == TLC_ROLE_SERVER || loaded->known == i + 1)
        return TLC_OK;
    (void)tlc_state_head(&other, loaded->known ? l->states[loaded->known - 1] : l->states[i]);
    if (other.step == s->step && other.history != s->history)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL,
                          "states %zu and %zu are not of one run: before step %llu %ss %llu and %llu got different "
                          "messages",
                          loaded->known - 1, i, (unsigned long long)s->step, tlc_role_word(x->role),
                          (unsigned long long)other.rank, (unsigned long long)s->rank);
    if (!loaded->known || s->step > other.step)
        loaded->known = i + 1;
    return TLC_OK;
}

/* Checks the entries of state i, whose head was checked. */
static tlc_status check_entries(const loading *l, size_t i, tlc_state *s, tlc_report *notes)
{
    const tlc_setup *x = l->o->x;
    tlc_state_entry e;

    for (uint64_t k = 0; k < s->entries; k++) {
        if (!tlc_state_next(s, &e))
            return fail(l, i, TLC_ERR_CORRUPT);
        size_t t = tlc_setup_find(x, (const char *)e.name, e.name_len);
        const tlc_sender *sender = e.pull ? l->o->pull : l->o->push;
        if (t == TLC_ALL) {
            tlc_report_unknown(notes, e.name, e.name_len);
            continue;
        }
        if (e.n != x->tensors[t].n)
            return tlc_refuse(x, TLC_ERR_SIZE, t, "it has %llu values in state %zu, and %zu here",
                              (unsigned long long)e.n, i, x->tensors[t].n);
        tlc_status status = check_history(l, i, s, t);
        if (!status)
            status = check_codec(l, i, sender, t, &e);
        if (status)
            return status;
        if (e.pull)
            cover(sender, t, &e);
        if (e.residual && !has_place(l, sender, t, &e))
            tlc_report_unknown(notes, e.name, e.name_len);
        x->loaded[t].seen |= 1;
    }
    return read_taken(l->o, s, 0) ? TLC_OK : fail(l, i, TLC_ERR_CORRUPT);
}

/* ---- apply ------------------------------------------------------------------------------------------------------- */

static void take_entry(const loading *l, size_t i, const tlc_state *s, const tlc_state_entry *e)
{
    const tlc_setup *x = l->o->x;
    const tlc_sender *sender = e->pull ? l->o->pull : l->o->push;
    size_t t = tlc_setup_find(x, (const char *)e->name, e->name_len);

    if (t == TLC_ALL || !sender)
        return;
    adopt_codec(sender, t, e);
    if (!e->residual || (!e->pull && !is_ours(l, s, &x->tensors[t])))
        return;
    size_t *seen = &x->loaded[t].seen;
    int add = !e->pull && *seen && *seen != i + 1;
    if (!e->pull && !*seen)
        *seen = i + 1;
    const tlc_parts parts = tlc_entry_parts(sender, tlc_sender_parts_of(sender, t), e);
    for (size_t k = 0; k < parts.count; k++)
        if (sender->residual[tlc_parts_at(&parts, k)])
            tlc_entry_take(sender, tlc_parts_at(&parts, k), e, add);
}

/* Is this the state of the same object of a run with as many ranks? */
static int same_run(const tlc_setup *x, const tlc_state *s)
{
    return s->rank == x->rank && s->workers == x->cfg.workers && s->servers == x->cfg.servers;
}

/* What came in the step before, as far as the states of this step agree. What a server knows, others do not. */
static uint64_t history_of(const loading *l)
{
    uint64_t history = 0;
    tlc_state s;

    for (size_t i = 0; i < l->count; i++) {
        (void)tlc_state_head(&s, l->states[i]);
        if (s.step != l->o->step || !s.history || (l->o->x->role == TLC_ROLE_SERVER && !same_run(l->o->x, &s)))
            continue;
        if (history && history != s.history)
            return 0;
        history = s.history;
    }
    return history;
}

/* Applies states that were checked. */
static void apply(loading *l)
{
    const tlc_setup *x = l->o->x;
    tlc_sender *senders[] = {l->o->push, l->o->pull};
    uint64_t used = 0, latest = 0;
    tlc_state s;
    tlc_state_entry e;

    for (int d = 0; d < 2; d++)
        if (senders[d]) {
            tlc_residuals_set(senders[d], 0);
            tlc_sender_forget(senders[d]);
        }
    memset(x->loaded, 0, x->count * sizeof *x->loaded);
    if (l->o->taken)
        memset(l->o->taken, 0, x->cfg.workers * sizeof *l->o->taken);
    for (size_t i = 0; i < l->count; i++) {
        (void)tlc_state_head(&s, l->states[i]);
        latest = s.step > latest ? s.step : latest;
        if (s.rank % x->cfg.workers == x->rank && s.step > used)
            used = s.step;
        for (uint64_t k = 0; k < s.entries && tlc_state_next(&s, &e); k++)
            take_entry(l, i, &s, &e);
        /* only a server that goes on as it was can be asked for pushes of before */
        (void)read_taken(l->o, &s, same_run(x, &s));
    }
    l->o->step = used ? used : latest;
    l->o->history = history_of(l);
    if (!x->cfg.sum && l->workers != x->cfg.workers && l->o->push)
        tlc_residuals_set(l->o->push, (float)((double)x->cfg.workers / (double)l->workers));
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* Do the states have all values of the parts of this owner? A tensor that only servers know may be another one's
 * there. */
static int all_covered(const loading *l)
{
    const tlc_setup *x = l->o->x;
    const tlc_sender *s = l->o->pull;

    for (size_t p = 0; s && p < s->part_count; p++) {
        const tlc_ownership_part *part = tlc_sender_part(s, p);
        if (x->loaded[part->tensor].covered < part->n && (x->loaded[part->tensor].seen || x->role == TLC_ROLE_SERVER))
            return 0;
    }
    return 1;
}

/* Which states are needed: of a run with as many ranks and the same parts, its own; otherwise all. */
static tlc_given_states needed(const loading *l)
{
    const tlc_setup *x = l->o->x;
    tlc_given_states given = all_of(l);

    if (as_many_ranks(l) && (!l->own_given || all_covered(l)))
        given.only = x->rank;
    return given;
}

tlc_status tlc_object_state_load(tlc_object *o, const tlc_message *states, size_t count, int lost)
{
    const tlc_setup *x = o->x;
    loading l = {.o = o, .states = states, .count = count, .report = x->report, .lost = lost};
    tlc_report notes = {.unknown = 0};
    size_t missing = TLC_ALL;
    tlc_status status = TLC_OK;
    tlc_state s;

    if (!states)
        return tlc_refuse_null(x, "states");
    if (!count)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "count is 0; at least one state is needed");
    memset(x->loaded, 0, x->count * sizeof *x->loaded);
    tlc_given_states all = all_of(&l);
    const uint64_t ranks = tlc_states_ranks(&all);
    l.distinct = ranks == count;
    for (size_t i = 0; !status && i < count; i++)
        status = check_head(&l, i, &s);
    if (status)
        return status;
    all = all_of(&l);
    l.of_all = ranks == all.ranks;
    for (size_t i = 0; !status && i < count; i++) {
        (void)tlc_state_head(&s, states[i]);
        status = check_entries(&l, i, &s, &notes);
    }
    const tlc_given_states given = needed(&l);
    if (!status)
        status = tlc_states_check(x, &given, lost);
    if (status)
        return status;
    for (size_t t = x->count; t-- > 0;)
        if (x->tensors[t].n && !x->loaded[t].seen) {
            notes.missing++;
            missing = t;
        }
    tlc_float_mode mode = tlc_float_enter();
    apply(&l);
    tlc_float_leave(mode);
    tlc_states_tell(x, &given, &notes, o->step, missing);
    return TLC_OK;
}
