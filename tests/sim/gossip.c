/* SPDX-License-Identifier: MIT
 *
 * Gossip over the network: who sends what to whom, and what happens when a message is lost.
 */
#include "gossip.h"
#include "between.h"
#include "creation.h"
#include "drivers.h"

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void open_node(gossip *w, uint32_t i)
{
    node *n = &w->node[i];
    run *r = w->run;

    n->edges = &w->group.edges[i];
    n->o = object_create(r, &w->group, ROLE_NODE, i, NULL);
    for (int kind = PUSHES; kind < NOTES; kind++)
        n->in[kind] = take(r, ROOM * n->edges->degree * sizeof(inbox));
    n->moved = new_values(r);
    n->kept_from = 1;
    n->model[1] = memcpy(new_values(r), w->group.model, r->sc.values * sizeof(float));
    n->estimate[1] = n->model[1];
}

void gossip_open(gossip *w, run *r, uint32_t nodes)
{
    *w = (gossip){.run = r, .nodes = nodes, .first = 1, .last = r->sc.steps, .together = 1};
    w->group = (group){.run = r, .workers = nodes, .edges = draw_edges(r, nodes)};
    w->group.model = draw_model(r, MOST_RANKS, 0);
    w->node = take(r, nodes * sizeof *w->node);
    for (uint32_t i = 0; i < nodes; i++)
        open_node(w, i);
    refuse_creations(r, &w->group, ROLE_NODE, nodes - 1);
    network_open(r);
}

/* The rest of the memory is freed with the run. */
void gossip_close(gossip *w)
{
    network_close(w->run);
    for (uint32_t i = 0; i < w->nodes; i++)
        object_destroy(w->node[i].o);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void wake(const gossip *w, const node *n)
{
    network_deliver(w->run, (packet){.kind = PACKET_WAKE, .from = n->o->rank, .to = n->o->rank});
}

static void send_to(const gossip *w, const node *n, int kind, uint32_t to, uint64_t step, uint32_t tries)
{
    network_send(w->run, (packet){.kind = kind == PUSHES ? PACKET_PUSH : PACKET_ANSWER,
                                  .from = n->o->rank,
                                  .to = to,
                                  .tries = tries,
                                  .step = step,
                                  .bytes = blob_keep(n->sent[kind][step])});
}

static void request(const gossip *w, const node *n, int kind, uint32_t from, uint64_t step, uint32_t tries)
{
    network_send(w->run, (packet){.kind = kind == PUSHES ? PACKET_REQUEST_PUSH : PACKET_REQUEST_ANSWER,
                                  .from = n->o->rank,
                                  .to = from,
                                  .tries = tries,
                                  .step = step});
}

static void send_push(const gossip *w, const node *n)
{
    for (size_t i = 0; i < n->edges->degree; i++)
        if (hears_push(w, n->edges->neighbour[i], n->o->rank, n->o->step))
            send_to(w, n, PUSHES, n->edges->neighbour[i], n->o->step, 0);
}

/* Does this node take a hello of that one in this step? */
static int greets(const gossip *w, uint32_t to, uint32_t from, uint64_t step)
{
    return needs_hello(w, to, from, step) || (all_greet(w, step) && hears_hello(w, to, from, step) &&
                                              drawn(w->run->sc.seed, ABOUT_HELLO, step, to, 1 + from) % 8 != 0);
}

static void send_hello(gossip *w, node *n)
{
    uint64_t step = n->o->step;
    int full = drawn(w->run->sc.seed, ABOUT_HELLO, step, n->o->rank, 0) % 4 == 0, wanted = 0;

    for (size_t i = 0; i < n->edges->degree; i++) {
        wanted |= greets(w, n->edges->neighbour[i], n->o->rank, step);
        full |= needs_hello(w, n->edges->neighbour[i], n->o->rank, step);
    }
    if (!wanted)
        return;
    node_hello(w, n, full);
    for (size_t i = 0; i < n->edges->degree; i++)
        if (greets(w, n->edges->neighbour[i], n->o->rank, step))
            send_to(w, n, HELLOS, n->edges->neighbour[i], step, 0);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

int waits_for(const gossip *w, const node *n, int kind, size_t i)
{
    uint32_t from = n->edges->neighbour[i];
    uint64_t step = n->o->step;

    if (inbox_of(n, kind, step, i)->gone)
        return 0;
    return kind == PUSHES ? !is_lost(n, i) && hears_push(w, n->o->rank, from, step) : greets(w, n->o->rank, from, step);
}

static int all_here(const gossip *w, const node *n, int kind)
{
    for (size_t i = 0; i < n->edges->degree; i++)
        if (waits_for(w, n, kind, i) && !inbox_of(n, kind, n->o->step, i)->filled)
            return 0;
    return 1;
}

/* Asks again for what was damaged. */
static void fetch_again(const gossip *w, const node *n, int kind)
{
    for (size_t i = 0; i < n->edges->degree; i++) {
        inbox *in = inbox_of(n, kind, n->o->step, i);
        if (waits_for(w, n, kind, i) && !in->filled)
            request(w, n, kind, n->edges->neighbour[i], n->o->step, ++in->tries);
    }
}

/* Loses those whose push will not come: half of them before its own push, and all that joined unheard. */
static void lose_some(gossip *w, node *n, int pushed)
{
    for (size_t i = 0; i < n->edges->degree; i++) {
        uint32_t from = n->edges->neighbour[i];
        int late = (int)(drawn(w->run->sc.seed, ABOUT_LATE, n->o->step, n->o->rank, 100 + from) & 1);
        int joined = comes_back(w, from, n->o->step), gone = pushed && inbox_of(n, PUSHES, n->o->step, i)->gone;
        if (!is_lost(n, i) && (gone || ((late <= pushed || joined) && !hears_push(w, n->o->rank, from, n->o->step))))
            node_lose(w, n, i);
    }
}

static void go_away(const gossip *w, node *n)
{
    run *r = w->run;

    tell(r, "step %llu: node %u %s", (unsigned long long)n->o->step, n->o->rank,
         n->away.kind == DYING ? "dies" : "sleeps");
    r->found->injected[FAULT_DEATH] += n->away.kind == DYING;
    n->phase = NODE_AWAY;
    for (uint64_t s = 0; n->away.kind == DYING && s < ROOM; s++)
        for (int kind = PUSHES; kind < NOTES; kind++) {
            blob_drop(r, n->sent[kind][s]);
            n->sent[kind][s] = NULL;
        }
    if (n->away.until != UINT64_MAX)
        wake(w, n);
}

static void try_pull(gossip *w, node *n)
{
    lose_some(w, n, 1);
    if (!all_here(w, n, PUSHES))
        return;
    if (!node_pull(w, n)) {
        fetch_again(w, n, PUSHES);
        return;
    }
    n->phase = NODE_BETWEEN;
    wake(w, n);
}

/* Takes the mean, and pushes. */
static void move(gossip *w, node *n)
{
    int away = leaves(w, n->o->rank, n->o->step);

    lose_some(w, n, 0);
    check_mean_of_models(w, n);
    node_refuse_calls(w, n);
    node_push(w, n);
    node_refuse_calls(w, n);
    send_push(w, n);
    if (away) {
        go_away(w, n);
        return;
    }
    n->phase = NODE_WAITS;
    try_pull(w, n);
}

static void try_greet(gossip *w, node *n)
{
    if (!all_here(w, n, HELLOS))
        return;
    if (node_greet(w, n))
        move(w, n);
    else
        fetch_again(w, n, HELLOS);
}

/* Saves the state, and does what is done between two steps. */
static void prepare(gossip *w, node *n)
{
    uint64_t step = n->o->step;
    const object *before = n->o;

    if (step % w->run->sc.checkpoint == 0 || step == w->first) {
        checkpoint_give(w->run, &n->saved);
        n->saved = checkpoint_make(n->o);
        digest(w->run, OF_STATE, step, n->o->rank, n->saved.state.data, n->saved.state.len);
    }
    between_steps(&n->o, 1);
    if (n->o != before)
        n->kept_from = step;
}

static void begin_step(gossip *w, node *n)
{
    uint64_t step = n->o->step;

    if (step > w->last) {
        check_mean_of_models(w, n);
        n->phase = NODE_FINISHED;
        return;
    }
    prepare(w, n);
    if (leaves(w, n->o->rank, step) && !n->away.pushed) {
        go_away(w, n);
        return;
    }
    send_hello(w, n);
    n->phase = NODE_GREETS;
    try_greet(w, n);
}

/* ---- coming back ------------------------------------------------------------------------------------------------- */

static void come_back(gossip *w, node *n)
{
    run *r = w->run;
    object *old = n->o;

    tell(r, "step %llu: node %u is back", (unsigned long long)n->away.until, n->o->rank);
    if (n->away.kind == DYING) {
        n->o = object_create(r, &w->group, ROLE_NODE, old->rank, NULL);
        object_destroy(old);
        n->has_pushed = 0;
        if (drawn(r->sc.seed, ABOUT_JOIN, n->o->rank, n->away.until, 0) & 1)
            load_same(n->o, &n->saved);
    }
    node_join(w, n, n->away.until);
    begin_step(w, n);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void receive(gossip *w, node *n, const packet *p)
{
    int kind = p->kind == PACKET_PUSH ? PUSHES : HELLOS;
    size_t i = place_of(n, p->from);
    inbox *in = inbox_of(n, kind, p->step, i);

    if (p->step < n->o->step || in->filled || in->gone)
        return;
    if (p->condition == WHOLE || (p->condition == DAMAGED && p->number & 1))
        *in = (inbox){.bytes = blob_keep(p->bytes), .filled = 1, .condition = p->condition, .tries = p->tries};
    else {
        request(w, n, kind, p->from, p->step, p->tries + 1);
        return;
    }
    if (n->phase == NODE_WAITS)
        try_pull(w, n);
    else if (n->phase == NODE_GREETS)
        try_greet(w, n);
}

/* The one who has the message is dead: the node that asked need not wait. */
static void give_up(gossip *w, node *n, int kind, uint64_t step, uint32_t from)
{
    inbox *in = inbox_of(n, kind, step, place_of(n, from));

    if (step < n->o->step || in->filled)
        return;
    in->gone = 1;
    if (n->phase == NODE_WAITS)
        try_pull(w, n);
    else if (n->phase == NODE_GREETS)
        try_greet(w, n);
}

/* A neighbour asks for a message again. */
static void serve(gossip *w, const node *n, const packet *p)
{
    int kind = p->kind == PACKET_REQUEST_PUSH ? PUSHES : HELLOS;

    if (p->condition == LOST)
        network_send(w->run,
                     (packet){.kind = p->kind, .from = p->from, .to = p->to, .tries = p->tries + 1, .step = p->step});
    else if (n->sent[kind][p->step]) {
        if (kind == PUSHES && n->phase != NODE_AWAY)
            check_again(w, n, p->step);
        send_to(w, n, kind, p->from, p->step, p->tries);
    } else
        give_up(w, &w->node[p->from], kind, p->step, p->to);
}

static void handle(gossip *w, packet *p)
{
    node *n = &w->node[p->to];

    switch (p->kind) {
    case PACKET_WAKE:
        if (n->phase == NODE_AWAY)
            come_back(w, n);
        else
            begin_step(w, n);
        break;
    case PACKET_PUSH:
    case PACKET_ANSWER:
        if (n->phase != NODE_AWAY || p->step >= n->away.until)
            receive(w, n, p);
        break;
    default: serve(w, n, p); break;
    }
    blob_drop(w->run, p->bytes);
}

static void play_events(gossip *w)
{
    packet p;

    draw_absences(w);
    for (uint32_t i = 0; i < w->nodes; i++)
        wake(w, &w->node[i]);
    while (network_next(w->run, &p))
        handle(w, &p);
    for (uint32_t i = 0; i < w->nodes; i++) {
        const node *n = &w->node[i];
        must(w->run, E2, n->phase == NODE_FINISHED || n->away.until == UINT64_MAX,
             "node %u waits for ever in step %llu", i, (unsigned long long)n->o->step);
        w->run->found->steps += n->o->expected.steps;
        w->run->found->failed += n->o->expected.failed;
    }
}

void run_gossip(run *r)
{
    uint64_t draw = drawn(r->sc.seed, ABOUT_RECOVERY, 0, 0, 0);
    gossip w;

    gossip_open(&w, r, r->sc.workers);
    if (draw & 1 && r->sc.steps > 1)
        w.last = 1 + below(draw, r->sc.steps - 1);
    play_events(&w);
    if (gossip_end(&w))
        play_events(&w);
    gossip_close(&w);
}
