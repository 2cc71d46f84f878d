/* SPDX-License-Identifier: MIT
 *
 * Workers that sleep or die, and how they come back: they apply the answers that are kept, or join with a model.
 */
#include "servers.h"
#include "creation.h"
#include "tasks.h"

/* ---- who is away ------------------------------------------------------------------------------------------------- */

/* There is always one who is never away and never late, so that servers have something to reduce. */
static uint32_t anchor(const cluster *w)
{
    return (uint32_t)(mixed(w->run->sc.seed) % w->workers);
}

void draw_away(cluster *w)
{
    const scenario *sc = &w->run->sc;

    for (uint32_t i = 0; i < w->workers; i++) {
        away *a = &w->worker[i].away;
        uint64_t draw = drawn(sc->seed, ABOUT_ABSENCE, i, w->first, 0), other = mixed(draw);
        int sleeps = falls(draw, sc->rate[FAULT_LATE]), dead = falls(other, sc->rate[FAULT_DEATH]);
        if (i == anchor(w) || (!sleeps && !dead))
            continue;
        *a = (away){.kind = dead ? DIES : SLEEPS,
                    .from = w->first + below(draw, w->last - w->first + 1),
                    .pushed = (int)(other & 1),
                    .reached = (uint32_t)(other >> 1) & 15};
        a->until = a->from + 1 + below(other, other >> 8 & 1 ? 2 : 7);
        if (a->until > w->last || (dead && (other >> 9 & 3) == 0))
            a->until = UINT64_MAX;
    }
}

static int is_straggler(const cluster *w, uint32_t worker, uint32_t server, uint64_t step)
{
    const scenario *sc = &w->run->sc;
    uint32_t rate = sc->rate[FAULT_LATE] + (sc->family == FAMILY_BACKUP ? 100 : 0);

    return worker != anchor(w) && falls(drawn(sc->seed, ABOUT_LATE, worker, server, step), rate);
}

int is_in_time(const cluster *w, uint32_t worker, uint32_t server, uint64_t step)
{
    const away *a = &w->worker[worker].away;

    if (a->kind && step >= a->from && step < a->until)
        return step == a->from && a->pushed && (a->reached >> server & 1);
    return !is_straggler(w, worker, server, step);
}

/* ---- coming back ------------------------------------------------------------------------------------------------- */

/* Loads the last saved state into a new object. */
static void revive(cluster *w, worker_node *n)
{
    run *r = w->run;
    object *old = n->o;

    n->o = object_create(r, &w->group, ROLE_WORKER, old->rank, NULL);
    w->objects[old->rank] = n->o;
    object_destroy(old);
    if (n->saved.step)
        load_same(n->o, &n->saved);
    for (uint32_t s = 0; s < w->servers; s++) {
        blob_drop(r, n->mine[s]);
        n->mine[s] = NULL;
    }
}

/* Has every server all answers since this step? */
static int are_kept(cluster *w, uint64_t step)
{
    int kept = 1;

    for (uint32_t s = 0; s < w->servers; s++)
        kept &= server_again(w, &w->server[s], step) != NULL;
    return kept;
}

/* Pulls the answers of all steps that it missed, in order. */
static void catch_up(cluster *w, worker_node *n, uint64_t until)
{
    while (n->o->step < until) {
        for (uint32_t s = 0; s < w->servers; s++) {
            blob *answer = server_again(w, &w->server[s], n->o->step);
            must(w->run, CALLS, answer, "an answer is not kept any more");
            blob_drop(w->run, n->in[s].bytes);
            n->in[s] = (worker_slot){.bytes = blob_keep(answer), .filled = 1};
        }
        (void)worker_pull(w, n);
    }
}

static void come_back(cluster *w, worker_node *n)
{
    run *r = w->run;
    const away a = n->away;
    uint64_t draw = drawn(r->sc.seed, ABOUT_JOIN, n->o->rank, a.until, 0);

    tell(r, "step %llu: worker %u is back, away since step %llu", (unsigned long long)a.until, n->o->rank,
         (unsigned long long)a.from);
    if (a.kind == DIES)
        revive(w, n);
    else if (n->mine[0]) /* the servers get the push now, too late */
        for (uint32_t s = 0; s < w->servers; s++)
            if (!(a.reached >> s & 1))
                server_push(w, &w->server[s], n->o->rank, a.from, n->mine[s]);
    int asks = a.kind == SLEEPS && draw & 3;
    if (asks && are_kept(w, a.from))
        catch_up(w, n, a.until);
    else {
        r->raced |= asks && a.until - a.from <= r->sc.keep; /* servers do not wait: they may be further by now */
        worker_join(w, n, a.until, draw >> 8 & 1);
    }
    n->phase = WORKER_BETWEEN;
    network_deliver(r, (packet){.kind = PACKET_WAKE, .from = n->o->rank, .to = n->o->rank});
}

void bring_back(cluster *w)
{
    for (uint32_t i = 0; i < w->workers; i++) {
        worker_node *n = &w->worker[i];
        int ready = n->phase == WORKER_AWAY;
        for (uint32_t s = 0; s < w->servers; s++)
            ready &= w->server[s].o->step >= n->away.until;
        if (ready)
            come_back(w, n);
    }
}

/* ---- join -------------------------------------------------------------------------------------------------------- */

void worker_join(cluster *w, worker_node *n, uint64_t step, int with_taken)
{
    run *r = w->run;
    object *o = n->o;
    uint64_t taken[MOST_SERVERS];
    int pending = n->mine[0] != NULL;
    tlc_status status;

    for (uint32_t s = 0; s < w->servers; s++)
        taken[s] = w->server[s].last_taken[o->rank];
    if (pending)
        must_refuse(o, tlc_worker_join(o->it, o->step, taken), TLC_ERR_ORDER);
    must_refuse(o, tlc_worker_join(o->it, 0, taken), TLC_ERR_PARAM);
    status = IN_MODE(r, tlc_worker_join(o->it, step, with_taken ? taken : NULL));
    must(r, CALLS, !status, "join: %s", tlc_status_string(status));
    for (size_t p = 0; pending && p < w->group.parts; p++) {
        const part_place *part = &w->group.part[p];
        if (n->push.kind == PUSH_GOOD && with_taken && taken[part->owner] != n->push.step)
            o->expected.dropped += check_returned(o, &n->push, part);
        else if (object_pushes(o, part->tensor))
            check_kept(o, &n->push, part);
    }
    for (uint32_t s = 0; s < w->servers; s++) {
        o->expected.late += pending && n->push.kind == PUSH_GOOD && with_taken && taken[s] != n->push.step;
        blob_drop(r, n->mine[s]);
        n->mine[s] = NULL;
        blob_drop(r, n->in[s].bytes); /* of the step that it was away in */
        n->in[s] = (worker_slot){.filled = 0};
    }
    o->step = step;
    n->joined = 1;
    for (uint32_t s = 0; s < w->servers; s++)
        (void)check_outcome(o, s, TLC_OK, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    object_check(o);
    memcpy(n->model, w->model[step - 1], r->sc.values * sizeof(float));
    tell(r, "step %llu: worker %u joins", (unsigned long long)step, o->rank);
}
