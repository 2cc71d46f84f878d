/* SPDX-License-Identifier: MIT
 *
 * The end of a cluster of servers: its states go on in another one, with as many or other workers and servers.
 */
#include "servers.h"

/* Saves the states of all that play to the end. */
static void save_all(cluster *w, endings *e)
{
    *e = (endings){.workers = 0};
    for (uint32_t i = 0; i < w->workers; i++) {
        worker_node *n = &w->worker[i];
        if (n->phase != WORKER_FINISHED)
            continue;
        e->made[e->workers] = checkpoint_make(n->o);
        digest(w->run, OF_STATE, 0, i, e->made[e->workers].state.data, e->made[e->workers].state.len);
        e->worker[e->workers] = &e->made[e->workers];
        e->workers++;
    }
    for (uint32_t s = 0; s < w->servers; s++) {
        checkpoint *c = &e->made[MOST_RANKS + s];
        *c = checkpoint_make(w->server[s].o);
        digest(w->run, OF_STATE, 0, MOST_RANKS + s, c->state.data, c->state.len);
        e->server[s] = c;
    }
    e->servers = w->servers;
}

/* The state of this worker, or NULL. */
static const checkpoint *find_worker(const endings *e, uint32_t worker)
{
    for (uint32_t i = 0; i < e->workers; i++)
        if (e->worker[i]->rank == worker)
            return e->worker[i];
    return NULL;
}

/* A worker goes on with its own state if there are as many as before. If it has none, it joins. */
static void load_worker(cluster *w, worker_node *n, const cluster *old, const endings *e)
{
    const checkpoint *own = find_worker(e, n->o->rank);

    if (w->workers != old->workers)
        load_all(n->o, e->worker, e->workers);
    else if (own)
        load_same(n->o, own);
    else
        worker_join(w, n, w->first, 0);
    memcpy(n->model, old->model[old->last], w->run->sc.values * sizeof(float));
}

static void load_server(cluster *w, server_node *n, const cluster *old, const endings *e)
{
    if (w->servers == old->servers)
        load_same(n->o, e->server[n->o->rank]);
    else
        load_all(n->o, e->server, e->servers);
    n->kept_from = w->first;
    for (uint32_t i = 0; i < w->workers; i++) {
        int same_run = w->workers == old->workers && w->servers == old->servers;
        uint64_t last = UINT64_MAX;
        n->last_taken[i] = same_run ? old->server[n->o->rank].last_taken[i] : 0;
        must(w->run, CALLS, !tlc_server_taken(n->o->it, i, &last) && last == n->last_taken[i],
             "a loaded server says that it took step %llu of worker %u, not %llu", (unsigned long long)last, i,
             (unsigned long long)n->last_taken[i]);
    }
}

void cluster_end(cluster *w)
{
    run *r = w->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_RECOVERY, 2, 0, 0);
    uint32_t workers = w->workers, servers = w->servers;
    cluster next;
    endings e;

    save_all(w, &e);
    must(r, CALLS, e.worker[0] && e.server[0], "nobody played to the end");
    if (falls(draw, r->sc.rate[FAULT_WRONG])) {
        refuse_states(w->server[0].o, e.server[w->servers - 1], e.worker[0]);
        refuse_states(e.worker[0]->rank == 0 ? w->worker[0].o : w->observer, e.worker[0], e.server[0]);
    }
    if (draw & 4)
        workers = 1 + (uint32_t)below(draw, w->workers < 8 ? 2 * w->workers : w->workers);
    if (draw & 8)
        servers = 1 + (uint32_t)below(mixed(draw), MOST_SERVERS);
    cluster_close(w);
    cluster_open(&next, r, workers, servers);
    next.first = w->last + 1;
    next.last = r->sc.steps;
    next.model[w->last] = w->model[w->last];
    for (uint32_t i = 0; i < workers; i++)
        load_worker(&next, &next.worker[i], w, &e);
    for (uint32_t s = 0; s < servers; s++)
        load_server(&next, &next.server[s], w, &e);
    must(r, CALLS, !tlc_worker_join(next.observer->it, next.first, NULL), "join of the observer");
    next.observer->step = next.first;
    tell(r, "%u workers and %u servers go on as %u and %u", w->workers, w->servers, workers, servers);
    *w = next;
    cluster_place(w);
}
