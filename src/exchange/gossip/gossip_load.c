/* SPDX-License-Identifier: MIT
 *
 * A node goes on from a state of its own, or from those of all nodes of a run.
 */
#include "../../api/context.h"
#include "../objects/missing_states.h"
#include "gossip_state.h"

static const char magic[4] = TLC_NODE_MAGIC;

/* ---- read -------------------------------------------------------------------------------------------------------- */

typedef struct state {
    tlc_reader in; /* without the checksum; at the first neighbour, then at the next entry */
    uint64_t step, workers, node, degree, entries;
    size_t arrays; /* of an entry */
} state;

typedef struct entry {
    const uint8_t *name; /* name_len bytes */
    const char *codec;   /* codec_len bytes */
    size_t name_len, codec_len;
    uint64_t n;
    const uint8_t *values; /* its arrays, one after the other */
} entry;

static tlc_status read_head(state *s, tlc_message message)
{
    *s = (state){.in = {message.data, message.data ? message.len : 0, TLC_NODE_FIXED}};
    if (s->in.len < TLC_NODE_FIXED + 4 + TLC_CHECKSUM_SIZE || memcmp(s->in.p, magic, sizeof magic) != 0)
        return TLC_ERR_CORRUPT;
    if (s->in.p[4] != TLC_NODE_VERSION)
        return TLC_ERR_VERSION;
    s->in.len -= TLC_CHECKSUM_SIZE;
    s->step = tlc_load64(s->in.p + 8);
    s->arrays = s->in.p[5] == TLC_EXCHANGE_ECD ? 2 : 1; /* and the replicas: read_neighbours */
    if (!tlc_read_number(&s->in, &s->workers) || !tlc_read_below(&s->in, s->workers, &s->node) ||
        !tlc_read_below(&s->in, s->workers, &s->degree) || !tlc_read_number(&s->in, &s->entries) || s->in.p[6] ||
        s->in.p[7] || !tlc_step_starts(s->step))
        return TLC_ERR_CORRUPT;
    return TLC_OK;
}

/* The neighbour that is this node, or NULL. */
static tlc_neighbour *find_neighbour(const tlc_gossip *g, uint64_t node)
{
    size_t low = 0;

    for (size_t high = g->degree; low < high;) {
        size_t middle = low + (high - low) / 2;
        if (g->neighbour[g->by_node[middle]].node < node)
            low = middle + 1;
        else
            high = middle;
    }
    tlc_neighbour *found = low < g->degree ? &g->neighbour[g->by_node[low]] : NULL;
    return found && found->node == node ? found : NULL;
}

/* Goes over the neighbours. g: those of this node learn which array is their replica; or NULL. Returns 0 if the list is
 * not as it should be. */
static int read_neighbours(state *s, const tlc_gossip *g)
{
    uint64_t code;

    for (uint64_t i = 0; i < s->degree; i++) {
        if (!tlc_read_number(&s->in, &code) || code / 2 >= s->workers)
            return 0;
        if (code % 2)
            continue;
        tlc_neighbour *known = g ? find_neighbour(g, code / 2) : NULL;
        if (known)
            known->array = s->arrays;
        s->arrays++;
    }
    return 1;
}

static int read_entry(state *s, entry *e)
{
    const uint8_t *codec;

    if (!tlc_read_bytes(&s->in, 1, &e->name, &e->name_len) || !e->name_len || !tlc_read_number(&s->in, &e->n) ||
        !tlc_read_bytes(&s->in, 1, &codec, &e->codec_len))
        return 0;
    size_t size = s->arrays * sizeof(float);
    if (!e->n || e->n > (s->in.len - s->in.at) / size)
        return 0;
    e->codec = (const char *)codec;
    e->values = s->in.p + s->in.at;
    s->in.at += (size_t)e->n * size;
    return 1;
}

static float value_at(const entry *e, size_t array, size_t i)
{
    return tlc_bits_float(tlc_load32(e->values + (array * (size_t)e->n + i) * sizeof(float)));
}

static int is_finite(const entry *e, size_t count)
{
    for (size_t i = 0; i < count * (size_t)e->n; i++)
        if (!tlc_finite(value_at(e, 0, i)))
            return 0;
    return 1;
}

/* ---- load: check ------------------------------------------------------------------------------------------------- */

typedef struct loading {
    tlc_gossip *g;
    const tlc_message *states;
    size_t count;
    uint64_t workers; /* of the run */
    int own;          /* the state of this node; else those of all nodes of a run */
    uint64_t step;    /* of state 0 */
    int distinct;     /* no node has two states */
} loading;

/* State i cannot be read: anywhere, or where it has this tensor. */
static tlc_status fail(const loading *l, size_t tensor, size_t i, tlc_status status)
{
    return tlc_refuse_state(&l->g->setup, tensor, status, i, l->states[i]);
}

/* Two states are not of one run: state s, and `other` before it. */
static tlc_status fail_pair(const loading *l, tlc_reason reason, const state *s, const state *other)
{
    tlc_finding f = tlc_finding_of(reason);

    f.role = TLC_ROLE_NODE;
    f.rank = (uint32_t)s->node;
    f.got = s->step;
    (void)tlc_gossip_tell(l->g, f.cause, &f);
    l->g->report.step = other->step;
    return f.cause;
}

/* Does state i fit those before, which fit each other? */
static tlc_status check_pairs(const loading *l, size_t i, const state *s)
{
    state other;

    if (l->distinct && s->step == l->step)
        return TLC_OK;
    for (size_t before = 0; before < i; before++) {
        (void)read_head(&other, l->states[before]);
        if (other.node == s->node)
            return fail_pair(l, TLC_REASON_STATE_TWICE, s, &other);
        if (other.step != s->step)
            return fail_pair(l, TLC_REASON_STATE_STEP, s, &other);
    }
    return TLC_OK;
}

/* Checks the head of state i, and that it fits those before. */
static tlc_status check_head(loading *l, size_t i, state *s)
{
    const tlc_setup *x = &l->g->setup;
    tlc_status status = read_head(s, l->states[i]);

    if (!status && tlc_load32(s->in.p + s->in.len) != tlc_checksum(s->in.p, s->in.len))
        status = TLC_ERR_CHECKSUM;
    if (!status && !read_neighbours(s, NULL))
        status = TLC_ERR_CORRUPT;
    if (status)
        return fail(l, TLC_ALL, i, status);
    if (i == 0) {
        l->workers = s->workers;
        l->step = s->step;
        l->own = l->count == 1 && s->workers == x->cfg.workers && s->node == x->rank;
    }
    if (s->in.p[5] != (uint8_t)x->kind)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "state %zu is not of a node in %s", i, tlc_kind_words(x->kind));
    if (s->workers != l->workers)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "state %zu is of a run of %llu nodes, state 0 of one of %llu", i,
                          (unsigned long long)s->workers, (unsigned long long)l->workers);
    return check_pairs(l, i, s);
}

/* The context of a tensor whose codec may change, or NULL. */
static tlc_ctx *own_context(const tlc_gossip *g, size_t tensor)
{
    const tlc_parts parts = tlc_sender_parts_of(&g->push.sender, tensor);
    int shared = 1;
    tlc_ctx *ctx = parts.count ? tlc_sender_context(&g->push.sender, tlc_parts_at(&parts, 0), &shared) : NULL;

    return shared ? NULL : ctx;
}

/* Does the codec of an entry of state i fit the tensor? */
static tlc_status check_codec(const loading *l, size_t i, size_t tensor, const entry *e)
{
    const tlc_ctx *ctx = own_context(l->g, tensor);
    char text[TLC_CODEC_TEXT];

    if (!tlc_codec_copy(e->codec, e->codec_len, text))
        return fail(l, tensor, i, TLC_ERR_CORRUPT);
    tlc_status status = tlc_refuse_codec(&l->g->setup, tensor, "the codec of a state", text);
    if (status || !ctx)
        return status;
    status = tlc_codec_fits(ctx, text);
    return status
               ? tlc_refuse(&l->g->setup, status, tensor,
                            "the codec of state %zu, \"%.40s\", does not fit here, where there is \"%.40s\"; name it "
                            "in reserve",
                            i, text, ctx->codec_text)
               : TLC_OK;
}

/* Sets it. */
static void adopt_codec(const tlc_gossip *g, size_t tensor, const entry *e)
{
    tlc_ctx *ctx = own_context(g, tensor);
    char text[TLC_CODEC_TEXT];

    if (ctx && tlc_codec_copy(e->codec, e->codec_len, text))
        (void)tlc_set_codec(ctx, text);
}

static tlc_status check_entry(const loading *l, size_t i, const state *s, const entry *e, tlc_report *notes)
{
    tlc_gossip *g = l->g;
    size_t t = tlc_setup_find(&g->setup, (const char *)e->name, e->name_len);

    if (t == TLC_ALL) {
        tlc_report_unknown(notes, e->name, e->name_len);
        return TLC_OK;
    }
    if (e->n != g->setup.tensors[t].n)
        return tlc_refuse(&g->setup, TLC_ERR_SIZE, t, "it has %llu values in state %zu, and %zu here",
                          (unsigned long long)e->n, i, g->setup.tensors[t].n);
    if (g->setup.loaded[t].seen == i + 1 || !is_finite(e, s->arrays))
        return fail(l, t, i, TLC_ERR_CORRUPT);
    g->setup.loaded[t].seen = i + 1;
    return check_codec(l, i, t, e);
}

/* Checks the entries of state i, whose head was checked. */
static tlc_status check_entries(const loading *l, size_t i, state *s, tlc_report *notes)
{
    tlc_status status = TLC_OK;
    entry e;

    for (uint64_t k = 0; !status && k < s->entries; k++) {
        if (!read_entry(s, &e))
            return fail(l, TLC_ALL, i, TLC_ERR_CORRUPT);
        status = check_entry(l, i, s, &e, notes);
    }
    return status || s->in.at == s->in.len ? status : fail(l, TLC_ALL, i, TLC_ERR_CORRUPT);
}

/* ---- load: are they of one run? ---------------------------------------------------------------------------------- */

static uint64_t node_of(tlc_message message)
{
    state s;

    (void)read_head(&s, message);
    return s.node;
}

/* Is an array of state s the model of the other node, or in ECD its estimate, which its replicas are equal to? */
static int same_values(state s, size_t array, state other)
{
    const size_t own = other.in.p[5] == TLC_EXCHANGE_ECD ? 1 : 0;
    entry a, b;

    if (s.entries != other.entries)
        return 0;
    for (uint64_t k = 0; k < s.entries && read_entry(&s, &a) && read_entry(&other, &b); k++) {
        const size_t size = (size_t)a.n * sizeof(float);
        if (a.name_len != b.name_len || memcmp(a.name, b.name, a.name_len) != 0 || a.n != b.n ||
            memcmp(a.values + array * size, b.values + own * size, size) != 0)
            return 0;
    }
    return 1;
}

/* Compares the replicas in state i with the models in states of a window. */
static tlc_status check_replicas(const loading *l, size_t i, const tlc_states_window *w)
{
    state s, list, other;
    uint64_t code;

    (void)read_head(&s, l->states[i]);
    list = s;
    (void)read_neighbours(&s, NULL);
    for (uint64_t k = 0; k < s.degree && tlc_read_number(&list.in, &code); k++) {
        const size_t array = list.arrays;
        list.arrays += code % 2 == 0;
        const uint64_t place = code / 2 - w->from;
        if (code % 2 || code / 2 < w->from || place >= TLC_STATES_WINDOW || !w->state[place])
            continue;
        (void)read_head(&other, l->states[w->state[place] - 1]);
        (void)read_neighbours(&other, NULL);
        if (!same_values(s, array, other))
            return tlc_refuse(
                &l->g->setup, TLC_ERR_PARAM, TLC_ALL,
                "states %zu and %zu are not of one run: node %llu has a replica of node %llu that differs "
                "from its model",
                w->state[place] - 1, i, (unsigned long long)s.node, (unsigned long long)other.node);
    }
    return TLC_OK;
}

/* In each state, are the replicas the models of the others? The states were checked one by one. */
static tlc_status check_run(const loading *l)
{
    const tlc_given_states given = {.states = l->states, .count = l->count, .rank_of = node_of};
    tlc_status status = TLC_OK;
    tlc_states_window w;

    for (uint64_t from = 0; !status && from != UINT64_MAX; from = w.next) {
        tlc_states_look(&given, from, &w);
        for (size_t i = 0; !status && i < l->count; i++)
            status = check_replicas(l, i, &w);
    }
    return status;
}

/* ---- load: apply ------------------------------------------------------------------------------------------------- */

static void copy(float *flat, const entry *e, size_t array)
{
    for (size_t i = 0; i < (size_t)e->n; i++)
        flat[i] = value_at(e, array, i);
}

/* Takes an entry of the state of this node. */
static void restore(tlc_gossip *g, size_t tensor, const entry *e)
{
    size_t at = g->place[tensor];

    copy(g->x + at, e, 0);
    if (g->estimate)
        copy(g->estimate + at, e, 1);
    for (size_t i = 0; i < g->degree; i++)
        if (g->neighbour[i].array)
            copy(g->neighbour[i].replica + at, e, g->neighbour[i].array);
}

/* Takes an entry of a run: x becomes the mean of the models so far. It cannot overflow. */
static void average(const tlc_gossip *g, size_t tensor, const entry *e)
{
    float *x = g->x + g->place[tensor];
    double count = (double)g->setup.loaded[tensor].seen;

    for (size_t i = 0; i < (size_t)e->n; i++) {
        float value = value_at(e, 0, i);
        x[i] = count > 1 ? (float)(x[i] + ((double)value - x[i]) / count) : value;
    }
}

/* All replicas of a tensor, and the estimate, become equal to the model. */
static void level(const tlc_gossip *g, size_t tensor)
{
    size_t at = g->place[tensor], bytes = g->setup.tensors[tensor].n * sizeof(float);

    if (g->estimate && bytes)
        memcpy(g->estimate + at, g->x + at, bytes);
    for (size_t i = 0; bytes && i < g->degree; i++)
        memcpy(g->neighbour[i].replica + at, g->x + at, bytes);
}

/* Applies one state. */
static void take_state(const loading *l, const tlc_message *message)
{
    tlc_gossip *g = l->g;
    state s;
    entry e;

    (void)read_head(&s, *message);
    (void)read_neighbours(&s, l->own ? g : NULL);
    g->step = s.step;
    for (uint64_t k = 0; k < s.entries && read_entry(&s, &e); k++) {
        size_t t = tlc_setup_find(&g->setup, (const char *)e.name, e.name_len);
        if (t == TLC_ALL)
            continue;
        adopt_codec(g, t, &e);
        g->setup.loaded[t].seen++;
        if (l->own)
            restore(g, t, &e);
        else
            average(g, t, &e);
    }
}

/* Applies states that were checked: those of a run in the order of its nodes. */
static void apply(const loading *l)
{
    const tlc_given_states given = {.states = l->states, .count = l->count, .rank_of = node_of};
    tlc_gossip *g = l->g;
    tlc_states_window w;

    memset(g->setup.loaded, 0, g->setup.count * sizeof *g->setup.loaded);
    for (size_t i = 0; i < g->degree; i++)
        g->neighbour[i].array = 0;
    for (uint64_t from = 0; from != UINT64_MAX; from = w.next) {
        tlc_states_look(&given, from, &w);
        for (size_t i = 0; i < TLC_STATES_WINDOW; i++)
            if (w.state[i])
                take_state(l, &l->states[w.state[i] - 1]);
    }
    for (size_t t = 0; t < g->setup.count; t++)
        if (!l->own || !g->setup.loaded[t].seen)
            level(g, t);
    for (size_t i = 0; i < g->degree; i++)
        g->neighbour[i].lost = l->own && !g->neighbour[i].array;
    tlc_sender_forget(&g->push.sender);
    tlc_gossip_stir(g);
}

static tlc_status load(tlc_gossip *g, const tlc_message *states, size_t count, int lost)
{
    loading l = {.g = g, .states = states, .count = count};
    tlc_report notes = {.unknown = 0};
    size_t missing = TLC_ALL;
    tlc_status status = TLC_OK;
    state s;

    if (!states)
        return tlc_refuse_null(&g->setup, "states");
    if (!count)
        return tlc_refuse(&g->setup, TLC_ERR_PARAM, TLC_ALL, "count is 0; at least one state is needed");
    if (g->pushed)
        return tlc_refuse_step(&g->setup, "state_load");
    memset(g->setup.loaded, 0, g->setup.count * sizeof *g->setup.loaded);
    const tlc_given_states all = {.states = states, .count = count, .rank_of = node_of};
    l.distinct = tlc_states_ranks(&all) == count;
    for (size_t i = 0; !status && i < count; i++) {
        status = check_head(&l, i, &s);
        if (!status)
            status = check_entries(&l, i, &s, &notes);
    }
    const tlc_given_states given = {states, count, l.workers, l.own ? g->setup.rank : TLC_NOBODY, node_of};
    if (!status)
        status = tlc_states_check(&g->setup, &given, lost);
    if (!status)
        status = check_run(&l);
    if (status)
        return status;
    for (size_t t = g->setup.count; t-- > 0;)
        if (g->setup.tensors[t].n && !g->setup.loaded[t].seen) {
            notes.missing++;
            missing = t;
        }
    tlc_float_mode mode = tlc_float_enter();
    apply(&l);
    tlc_float_leave(mode);
    tlc_states_tell(&g->setup, &given, &notes, g->step, missing);
    return TLC_OK;
}

tlc_status tlc_gossip_state_load(tlc_gossip *g, const tlc_message *states, size_t count)
{
    return g ? load(g, states, count, 0) : TLC_ERR_PARAM;
}

tlc_status tlc_gossip_state_salvage(tlc_gossip *g, const tlc_message *states, size_t count)
{
    return g ? load(g, states, count, 1) : TLC_ERR_PARAM;
}
