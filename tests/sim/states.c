/* SPDX-License-Identifier: MIT */
#include "states.h"
#include "creation.h"
#include "oracle.h"
#include <float.h>
#include <math.h>

/* ---- save -------------------------------------------------------------------------------------------------------- */

checkpoint checkpoint_make(object *o)
{
    run *r = o->run;
    checkpoint c = {.state = object_save(o), .role = o->role, .rank = o->rank, .step = o->step};
    const group *g = o->group;

    c.workers = g->workers;
    c.servers = g->servers;
    memcpy(c.codec, o->codec, sizeof c.codec);
    c.residual = take(r, r->sc.values * sizeof(float));
    memcpy(c.residual, o->residual, r->sc.values * sizeof(float));
    c.owned = take(r, r->sc.values * sizeof(float));
    c.has = take(r, r->sc.values);
    for (size_t p = 0; p < g->parts; p++) {
        const part_place *part = &g->part[p];
        if (o->role == ROLE_WORKER || part->owner != o->rank)
            continue;
        const tlc_part now = object_part(o, part->index);
        memset(c.has + part->at, 1, part->n);
        if (now.residual)
            memcpy(c.owned + part->at, now.residual, part->n * sizeof(float));
    }
    return c;
}

void checkpoint_give(run *r, checkpoint *c)
{
    give(r, (void *)(uintptr_t)c->state.data);
    give(r, c->residual);
    give(r, c->owned);
    give(r, c->has);
    *c = (checkpoint){.step = 0};
}

/* ---- load -------------------------------------------------------------------------------------------------------- */

/* How many tensors are in none of the states. */
static size_t count_missing(const object *o, const checkpoint *const *c, size_t count)
{
    const scenario *sc = &o->run->sc;
    size_t missing = 0;

    for (size_t t = 0; t < sc->count; t++) {
        int found = 0;
        for (size_t i = 0; i < count; i++) {
            uint32_t only = sc->tensor[t].only; /* of the first group; later ones keep it modulo their workers */
            int pushes = !only || (only - 1) % c[i]->workers == c[i]->rank;
            found |= c[i]->role != ROLE_SERVER && pushes;
            for (size_t v = 0; c[i]->role != ROLE_WORKER && v < sc->tensor[t].n; v++)
                found |= c[i]->has[sc->tensor[t].at + v];
        }
        missing += sc->tensor[t].n && !found;
    }
    return missing;
}

/* Is a state missing that is needed? With as many ranks as before, each needs its own, else those of all. */
static int is_missing(const object *o, const checkpoint *const *c, size_t count)
{
    const int server = o->role == ROLE_SERVER;
    const uint32_t before = server ? c[0]->servers : c[0]->workers;
    int own = 0;

    for (size_t i = 0; i < count; i++)
        own |= c[i]->rank == o->rank;
    if (o->role == ROLE_NODE)
        return count < before && !(count == 1 && own && before == o->group->workers);
    return before == (server ? o->group->servers : o->group->workers) ? !own : count < before;
}

/* Some of the states are not given. The caller has to say that they are lost. */
static tlc_status load_some(object *o, const tlc_message *states, const checkpoint *const *c, size_t count)
{
    if (!is_missing(o, c, count))
        return object_load(o, states, count);
    must_refuse(o, object_load(o, states, count), TLC_ERR_PARAM);
    (void)check_outcome(o, 0, TLC_ERR_PARAM, blame_of(CAUSE(TLC_ERR_PARAM), o->rank, TLC_ALL, 0, role_names[o->role]));
    return object_salvage(o, states, count);
}

/* One of the states is held back, which may be refused; then all are loaded. */
static void load(object *o, const checkpoint *const *c, size_t count)
{
    const uint64_t draw = drawn(o->run->sc.seed, ABOUT_WRONG_CALL, o->role, o->rank, count);
    const size_t held = count ? (size_t)below(draw, count) : 0;
    const checkpoint *others[MOST_RANKS];
    tlc_message given[MOST_RANKS], states[MOST_RANKS];
    uint64_t step = 0;
    tlc_status status;

    for (size_t i = 0; i < count; i++) {
        states[i] = c[i]->state;
        if (c[i]->rank % o->group->workers == o->rank && c[i]->step > step)
            step = c[i]->step;
    }
    for (size_t i = 0; !step && i < count; i++)
        step = c[i]->step;
    for (size_t i = 0; i + 1 < count; i++) {
        others[i] = c[i < held ? i : i + 1];
        given[i] = states[i < held ? i : i + 1];
    }
    if (count > 1 && falls(draw, o->run->sc.rate[FAULT_WRONG]) && is_missing(o, others, count - 1))
        must_refuse(o, object_load(o, given, count - 1), TLC_ERR_PARAM);
    status = load_some(o, states, c, count);
    must(o->run, CALLS, !status, "state_load: %s (%s)", tlc_status_string(status), object_outcome(o, 0).sentence);
    o->step = step;
    const tlc_outcome outcome = check_outcome(o, 0, TLC_OK, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    must(o->run, CALLS, outcome.unknown == 0, "state_load: %zu names are unknown", outcome.unknown);
    must(o->run, CALLS, outcome.missing == count_missing(o, c, count), "state_load: %zu names are missing, not %zu",
         outcome.missing, count_missing(o, c, count));
    object_check(o);
}

/* The residuals of answers are those of the old owners, bit for bit. */
static void check_owned(const object *o, const checkpoint *const *c, size_t count)
{
    const group *g = o->group;

    for (size_t p = 0; p < g->parts; p++) {
        const part_place *part = &g->part[p];
        if (o->role == ROLE_WORKER || part->owner != o->rank)
            continue;
        const tlc_part now = object_part(o, part->index);
        for (size_t i = 0; now.residual && i < part->n; i++) {
            float want = 0;
            for (size_t k = 0; k < count; k++)
                if (c[k]->has[part->at + i])
                    want = c[k]->owned[part->at + i];
            must(o->run, CALLS, float_bits(now.residual[i]) == float_bits(want),
                 "state_load: tensor %zu, value %zu: the residual of the owner is %g instead of %g", part->tensor,
                 part->first + i, now.residual[i], want);
        }
    }
}

void load_same(object *o, const checkpoint *c)
{
    run *r = o->run;

    load(o, &c, 1);
    memcpy(o->codec, c->codec, sizeof o->codec);
    for (size_t t = 0; t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        must(r, CALLS,
             !plan->theirs || o->role == ROLE_SERVER || !object_pushes(o, t) ||
                 same(o->residual + plan->at, c->residual + plan->at, plan->n * sizeof(float)),
             "state_load: tensor %zu has another residual", t);
    }
    check_owned(o, &c, 1);
    if (c->workers != o->group->workers || c->servers != o->group->servers)
        return; /* these are in the state, too */
    const tlc_message again = object_save(o);
    must(r, CALLS, again.len == c->state.len && same(again.data, c->state.data, again.len),
         "a loaded state is saved as other bytes");
    give(r, (void *)(uintptr_t)again.data);
}

void object_reload(object **o)
{
    object *old = *o, *new;
    run *r = old->run;
    checkpoint c = checkpoint_make(old);
    float *residual = new_values(r);

    for (size_t i = 0; i < r->sc.count; i++) /* to be overwritten */
        memset(residual + r->sc.tensor[i].at, 0x3f, r->sc.tensor[i].n * sizeof *residual);
    new = object_create(r, old->group, old->role, old->rank, residual);
    load_same(new, &c);
    object_destroy(old);
    checkpoint_give(r, &c);
    *o = new;
}

void load_all(object *o, const checkpoint *const *c, size_t count)
{
    run *r = o->run;
    uint32_t workers = o->group->workers;

    load(o, c, count);
    for (int d = PUSH; d <= PULL; d++)
        for (size_t t = 0; t < r->sc.count; t++)
            if (r->sc.rate_boundary)
                o->codec[d][t] = &unknown_codec;
    for (size_t t = 0; o->role != ROLE_SERVER && t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        int alone = o->group->only[t] != 0;
        if (!plan->theirs || !object_pushes(o, t))
            continue;
        for (size_t v = plan->at; v < plan->at + plan->n; v++) {
            double want = 0, magnitude = 0, factor = 1;
            if (!alone && !r->sc.sum && count)
                factor = (double)workers / c[0]->workers;
            for (size_t i = 0; i < count; i++)
                if (alone ? (plan->only - 1) % c[i]->workers == c[i]->rank : c[i]->rank % workers == o->rank) {
                    want += factor * c[i]->residual[v];
                    magnitude += factor * fabs((double)c[i]->residual[v]);
                }
            must(r, E6, fabs(o->residual[v] - want) <= 0x1p-21 * magnitude + 16 * FLT_TRUE_MIN || !(magnitude < 1e37),
                 "state_load: tensor %zu, value %zu: the residual is %.9g instead of %.9g", t, v - plan->at,
                 o->residual[v], want);
        }
    }
    check_owned(o, c, count);
}

/* ---- states that are refused ------------------------------------------------------------------------------------- */

/* Whether a state of the exchange has a part of a tensor: their number follows 16 bytes and three numbers
 * (exchange/objects/object_state.h). */
static int has_entries(tlc_message state)
{
    const uint8_t *p = (const uint8_t *)state.data + 16;

    for (int numbers = 0; numbers < 3; p++)
        numbers += !(*p & 0x80);
    return *p != 0;
}

/* other: of another rank or role, or NULL. */
void refuse_states(object *o, const checkpoint *c, const checkpoint *other)
{
    run *r = o->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, o->role, o->rank, o->step);
    uint8_t *bytes = take(r, c->state.len);
    tlc_message states[2] = {{bytes, c->state.len}, c->state};
    frozen before;
    tlc_status status;

    memcpy(bytes, c->state.data, c->state.len);
    bytes[below(draw, c->state.len)] ^= (uint8_t)(1u << (draw >> 61));
    before = freeze(o, NULL, 0);
    status = object_load(o, states, 1);
    must(r, CALLS, status == TLC_ERR_CORRUPT || status == TLC_ERR_CHECKSUM || status == TLC_ERR_VERSION,
         "an altered state: %s", tlc_status_string(status));
    (void)check_outcome(o, 0, status, blame_of(CAUSE(status), TLC_NOBODY, TLC_ALL, 0, NULL));
    check_frozen(o, &before, "state_load of an altered state");
    memcpy(bytes, c->state.data, c->state.len);
    states[0].len = (size_t)below(mixed(draw), c->state.len);
    status = object_load(o, states, 1);
    must(r, CALLS, status == TLC_ERR_CORRUPT || status == TLC_ERR_CHECKSUM, "a cut state: %s",
         tlc_status_string(status));
    check_frozen(o, &before, "state_load of a cut state");
    states[0] = c->state;
    if (o->role == ROLE_NODE || has_entries(c->state)) { /* a tensor of a rank twice */
        must_refuse(o, object_load(o, states, 2), TLC_ERR_PARAM);
        (void)check_outcome(o, 0, TLC_ERR_PARAM,
                            blame_of(CAUSE(TLC_ERR_PARAM), c->rank, TLC_ALL, 0, role_names[o->role]));
    }
    must_refuse(o, object_load(o, states, 0), TLC_ERR_PARAM);
    if (other && other->role != o->role)
        must_refuse(o, object_load(o, &other->state, 1), TLC_ERR_PARAM);
    give(r, bytes);
}
