/* SPDX-License-Identifier: MIT
 *
 * Parameter servers over the network: who sends what to whom, and what happens when a message is lost.
 */
#include "servers.h"
#include "between.h"
#include "creation.h"
#include "drivers.h"

/* ---- clusters ---------------------------------------------------------------------------------------------------- */

static void open_worker(cluster *w, uint32_t i)
{
    worker_node *n = &w->worker[i];
    run *r = w->run;

    n->o = object_create(r, &w->group, ROLE_WORKER, i, NULL);
    n->push = pushed_open(n->o);
    n->out = new_results(r, n->o->dtype);
    n->model = new_values(r);
    n->momentum = new_values(r);
    w->objects[i] = n->o;
    w->pushes[i] = &n->push;
}

static void open_server(cluster *w, uint32_t i)
{
    server_node *n = &w->server[i];
    run *r = w->run;

    n->o = object_create(r, &w->group, ROLE_SERVER, i, NULL);
    n->push = take(r, w->workers * sizeof(blob *));
    n->held = take(r, w->workers * sizeof *n->held);
    n->last_taken = take(r, w->workers * sizeof *n->last_taken);
    n->owned_before = new_values(r);
    n->owned_after = new_values(r);
    n->given = new_values(r);
    n->kept_from = 1;
}

void cluster_open(cluster *w, run *r, uint32_t workers, uint32_t servers)
{
    object *owners[MOST_SERVERS];

    *w = (cluster){.run = r, .workers = workers, .servers = servers, .first = 1, .last = r->sc.steps};
    w->group = (group){.run = r, .workers = workers, .servers = servers, .owners = servers};
    for (size_t t = 0; t < r->sc.count; t++)
        w->group.only[t] = r->sc.tensor[t].only ? (r->sc.tensor[t].only - 1) % workers + 1 : 0;
    w->plain_group = w->group;
    w->plain_group.plain = 1;
    w->worker = take(r, workers * sizeof *w->worker);
    w->server = take(r, servers * sizeof *w->server);
    w->objects = take(r, workers * sizeof(object *));
    w->pushes = take(r, workers * sizeof(pushed *));
    for (uint32_t i = 0; i < workers; i++)
        open_worker(w, i);
    for (uint32_t i = 0; i < servers; i++) {
        open_server(w, i);
        owners[i] = w->server[i].o;
    }
    group_learn_parts(&w->group, owners, servers);
    refuse_creations(r, &w->group, ROLE_WORKER, workers - 1);
    refuse_creations(r, &w->group, ROLE_SERVER, servers - 1);
    w->observer = object_create(r, &w->plain_group, ROLE_WORKER, 0, NULL);
    w->model[0] = new_values(r);
    network_open(r);
}

void cluster_place(cluster *w)
{
    for (uint32_t i = 0; i < w->workers; i++)
        w->worker[i].o->group = &w->group;
    for (uint32_t i = 0; i < w->servers; i++)
        w->server[i].o->group = &w->group;
    w->observer->group = &w->plain_group;
}

void cluster_close(cluster *w)
{
    network_close(w->run);
    for (uint32_t i = 0; i < w->workers; i++)
        object_destroy(w->worker[i].o);
    for (uint32_t i = 0; i < w->servers; i++)
        object_destroy(w->server[i].o);
    object_destroy(w->observer);
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

static void go_away(cluster *w, worker_node *n)
{
    tell(w->run, "step %llu: worker %u %s", (unsigned long long)n->o->step, n->o->rank,
         n->away.kind == DIES ? "dies" : "sleeps");
    w->run->found->injected[n->away.kind == DIES ? FAULT_DEATH : FAULT_LATE]++;
    n->phase = WORKER_AWAY;
}

/* Sends pushes that are in time. The network holds the others until their step has been answered. */
static void send_pushes(cluster *w, worker_node *n)
{
    for (uint32_t s = 0; s < w->servers; s++) {
        if (is_in_time(w, n->o->rank, s, n->o->step)) {
            network_send(w->run, (packet){.kind = PACKET_PUSH,
                                          .from = n->o->rank,
                                          .to = w->workers + s,
                                          .step = n->o->step,
                                          .bytes = blob_keep(n->mine[s])});
            continue;
        }
        if (n->phase == WORKER_AWAY)
            continue;
        held *h = &w->server[s].held[n->o->rank];
        blob_drop(w->run, h->bytes);
        *h = (held){blob_keep(n->mine[s]), n->o->step};
    }
}

static void request_answer(cluster *w, const worker_node *n, uint32_t server, uint32_t tries)
{
    network_send(w->run, (packet){.kind = PACKET_REQUEST_ANSWER,
                                  .from = n->o->rank,
                                  .to = w->workers + server,
                                  .tries = tries,
                                  .step = n->o->step});
}

/* Pulls if all answers are here. What was damaged is fetched again. */
static void try_pull(cluster *w, worker_node *n)
{
    uint32_t tries[MOST_SERVERS] = {0};

    for (uint32_t s = 0; s < w->servers; s++) {
        if (!n->in[s].filled)
            return;
        tries[s] = n->in[s].tries;
    }
    if (worker_pull(w, n)) {
        n->phase = WORKER_BETWEEN;
        network_deliver(w->run, (packet){.kind = PACKET_WAKE, .from = n->o->rank, .to = n->o->rank});
        return;
    }
    for (uint32_t s = 0; s < w->servers; s++)
        if (!n->in[s].filled)
            request_answer(w, n, s, tries[s] + 1);
}

/* Saves the state, and does what is done between two steps. */
static void prepare(cluster *w, worker_node *n)
{
    uint64_t step = n->o->step;

    if (n->joined) /* a new object would not know */
        return;
    if (step % w->run->sc.checkpoint == 0 || step == w->first) {
        checkpoint_give(w->run, &n->saved);
        n->saved = checkpoint_make(n->o);
        digest(w->run, OF_STATE, step, n->o->rank, n->saved.state.data, n->saved.state.len);
    }
    between_steps(&n->o, 1);
    w->objects[n->o->rank] = n->o;
}

static void begin_step(cluster *w, worker_node *n)
{
    uint64_t step = n->o->step;
    int leaves = n->away.kind && n->away.from == step;

    if (step > w->last) {
        n->phase = WORKER_FINISHED;
        return;
    }
    prepare(w, n);
    if (leaves && !n->away.pushed) {
        go_away(w, n);
        bring_back(w); /* the servers may be ahead */
        return;
    }
    worker_refuse_calls(w, n);
    worker_push(w, n);
    worker_refuse_calls(w, n);
    n->phase = WORKER_WAITS;
    if (leaves)
        go_away(w, n);
    send_pushes(w, n);
    if (leaves) {
        bring_back(w);
        return;
    }
    for (uint32_t s = 0; s < w->servers; s++) /* an answer that came too early was not kept */
        if (!n->in[s].filled && w->server[s].o->step > step)
            request_answer(w, n, s, 0);
    try_pull(w, n);
}

static void receive_answer(cluster *w, worker_node *n, const packet *p)
{
    uint32_t s = p->from - w->workers;

    if (n->phase == WORKER_AWAY || p->step != n->o->step || n->in[s].filled)
        return;
    if (p->condition == LOST || (p->condition == DAMAGED && p->number & 1)) {
        request_answer(w, n, s, p->tries + 1);
        return;
    }
    n->in[s] = (worker_slot){.bytes = blob_keep(p->bytes), .condition = p->condition, .tries = p->tries, .filled = 1};
    if (n->phase == WORKER_WAITS)
        try_pull(w, n);
}

/* A server asks for the push again, as it was damaged or did not come. */
static void serve_push(cluster *w, worker_node *n, const packet *p)
{
    uint32_t s = p->from - w->workers;

    if (p->condition == LOST)
        network_send(w->run,
                     (packet){.kind = p->kind, .from = p->from, .to = p->to, .tries = p->tries + 1, .step = p->step});
    else if (p->step == n->o->step && n->mine[s])
        network_send(w->run, (packet){.kind = PACKET_PUSH,
                                      .from = n->o->rank,
                                      .to = p->from,
                                      .tries = p->tries,
                                      .step = p->step,
                                      .bytes = blob_keep(n->mine[s])});
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

void apply_results(const cluster *w, uint64_t step, const float *result, float *model)
{
    for (size_t p = 0; p < w->group.parts; p++) {
        const part_place *part = &w->group.part[p];
        int failed = verdict_of(w, part->owner, step)->failed;
        for (size_t i = part->at; !failed && i < part->at + part->n; i++)
            model[i] += result[i];
    }
}

/* The observer pulls a step that all servers have answered. */
static void observe(cluster *w)
{
    run *r = w->run;
    object *o = w->observer;
    tlc_message from[MOST_SERVERS];
    void *out[MOST_TENSORS];

    for (uint32_t s = 0; s < w->servers; s++) {
        if (w->server[s].o->step <= o->step)
            return;
        from[s] = blob_message(w->server[s].answer[o->step]);
    }
    w->result[o->step] = new_f32_results(r);
    w->model[o->step] = memcpy(new_values(r), w->model[o->step - 1], r->sc.values * sizeof(float));
    point_at(r, w->result[o->step], sizeof(float), (const void **)out);
    check_pull(w, o, tlc_worker_pull(o->it, from, out), from);
    check_gaps(r, w->result[o->step], sizeof(float), "results");
    for (size_t p = 0; p < w->group.parts; p++) {
        const part_place *part = &w->group.part[p];
        const server_node *n = &w->server[part->owner];
        const float *before = n->o->feedback[PULL][part->tensor] ? n->owned_before + part->at : NULL;
        if (!n->verdict[o->step].failed)
            check_answer(n->o, part, before, n->owned_after + part->at, n->given + part->at,
                         (const uint8_t *)w->result[o->step], TLC_F32);
    }
    apply_results(w, o->step, w->result[o->step], w->model[o->step]);
    o->step++;
    object_check(o);
}

/* A server dies and comes back from its state: it has neither answers nor pushes of this step. */
static void restart_server(cluster *w, server_node *n)
{
    run *r = w->run;
    object *o = n->o;
    uint64_t draw = drawn(r->sc.seed, ABOUT_DEATH, o->step, o->rank, 99);
    int reload = falls(draw, r->sc.rate[FAULT_DEATH] / 4);

    if (!reload || n->reduced)
        return;
    tell(r, "step %llu: server %u starts again", (unsigned long long)o->step, o->rank);
    r->found->injected[FAULT_DEATH]++;
    object_reload(&n->o);
    n->kept_from = n->o->step;
    for (uint32_t i = 0; i < w->workers; i++) {
        blob_drop(r, n->push[i]);
        n->push[i] = NULL;
    }
    n->came = 0;
}

static void deliver_held(cluster *w, server_node *n)
{
    for (uint32_t i = 0; i < w->workers; i++) {
        held *h = &n->held[i];
        if (!h->bytes || h->step >= n->o->step)
            continue;
        server_push(w, n, i, h->step, h->bytes);
        blob_drop(w->run, h->bytes);
        h->bytes = NULL;
    }
}

static void send_answer(cluster *w, const server_node *n, uint64_t step, uint32_t to, uint32_t tries)
{
    network_send(w->run, (packet){.kind = PACKET_ANSWER,
                                  .from = w->workers + n->o->rank,
                                  .to = to,
                                  .tries = tries,
                                  .step = step,
                                  .bytes = blob_keep(n->answer[step])});
}

/* Reduces and answers when all came that are waited for. */
static void try_reduce(cluster *w, server_node *n)
{
    uint64_t step = n->o->step;

    for (uint32_t i = 0; i < w->workers; i++)
        if (!n->push[i] && is_in_time(w, i, n->o->rank, step))
            return;
    server_refuse_calls(w, n);
    between_steps(&n->o, 0);
    server_reduce(w, n);
    server_refuse_calls(w, n);
    server_answer(w, n);
    for (uint32_t i = 0; i < w->workers; i++)
        send_answer(w, n, step, i, 0);
    observe(w);
    restart_server(w, n);
    deliver_held(w, n);
    server_refuse_calls(w, n);
    bring_back(w);
}

static void receive_push(cluster *w, server_node *n, const packet *p)
{
    if (p->condition == WHOLE) {
        server_push(w, n, p->from, p->step, p->bytes);
        try_reduce(w, n);
        return;
    }
    if (p->condition == DAMAGED)
        server_push_damaged(w, n, p->bytes);
    if (p->step == n->o->step && !n->push[p->from])
        network_send(w->run, (packet){.kind = PACKET_REQUEST_PUSH,
                                      .from = p->to,
                                      .to = p->from,
                                      .tries = p->tries + 1,
                                      .step = p->step});
}

static void serve_answer(cluster *w, server_node *n, const packet *p)
{
    if (p->condition == LOST)
        network_send(w->run,
                     (packet){.kind = p->kind, .from = p->from, .to = p->to, .tries = p->tries + 1, .step = p->step});
    else if (p->step < n->o->step) {
        (void)server_again(w, n, p->step);
        send_answer(w, n, p->step, p->from, p->tries);
    }
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void handle(cluster *w, packet *p)
{
    if (p->to < w->workers) {
        worker_node *n = &w->worker[p->to];
        if (p->kind == PACKET_WAKE)
            begin_step(w, n);
        else if (p->kind == PACKET_ANSWER)
            receive_answer(w, n, p);
        else
            serve_push(w, n, p);
    } else {
        server_node *n = &w->server[p->to - w->workers];
        if (p->kind == PACKET_PUSH)
            receive_push(w, n, p);
        else
            serve_answer(w, n, p);
    }
    blob_drop(w->run, p->bytes);
}

static void play_events(cluster *w)
{
    packet p;

    draw_away(w);
    for (uint32_t i = 0; i < w->workers; i++)
        network_deliver(w->run, (packet){.kind = PACKET_WAKE, .from = i, .to = i});
    while (network_next(w->run, &p))
        handle(w, &p);
    for (uint32_t i = 0; i < w->workers; i++)
        must(w->run, E2, w->worker[i].phase == WORKER_FINISHED || w->worker[i].away.until == UINT64_MAX,
             "worker %u waits for ever in step %llu", i, (unsigned long long)w->worker[i].o->step);
    for (uint32_t s = 0; s < w->servers; s++) {
        must(w->run, E2, w->server[s].o->step == w->last + 1, "server %u waits for ever in step %llu", s,
             (unsigned long long)w->server[s].o->step);
        w->run->found->steps += w->server[s].o->expected.steps;
        w->run->found->failed += w->server[s].o->expected.failed;
    }
}

void run_servers(run *r)
{
    uint64_t draw = drawn(r->sc.seed, ABOUT_RECOVERY, 0, 0, 0);
    cluster w;

    cluster_open(&w, r, r->sc.workers, r->sc.servers);
    if (draw & 1 && r->sc.steps > 1)
        w.last = 1 + below(draw, r->sc.steps - 1);
    play_events(&w);
    cluster_end(&w);
    if (w.first <= w.last)
        play_events(&w);
    cluster_close(&w);
}
