/* SPDX-License-Identifier: MIT
 *
 * An all-reduce over the network: who sends what to whom, and what happens when a message is lost.
 */
#include "allreduce.h"
#include "between.h"
#include "creation.h"
#include "drivers.h"

/* ---- reductions -------------------------------------------------------------------------------------------------- */

static void open_member(reduction *w, member *m, uint32_t rank)
{
    run *r = w->run;

    m->o = object_create(r, &w->group, ROLE_RANK, rank, NULL);
    m->push = pushed_open(m->o);
    for (int kind = PUSHES; kind < PHASES; kind++) {
        m->in[kind] = take(r, w->ranks * sizeof(slot));
        m->last[kind] = take(r, w->ranks * sizeof(blob *));
    }
    m->early = take(r, w->ranks * sizeof(slot));
    m->mine = take(r, w->ranks * sizeof(blob *));
    m->owned_before = new_values(r);
    m->owned_given = new_values(r);
    m->momentum = new_values(r);
    m->out = new_results(r, m->o->dtype);
}

void reduction_open(reduction *w, run *r, uint32_t ranks)
{
    object *owners[MOST_RANKS];
    const scenario *sc = &r->sc;

    *w = (reduction){.run = r, .ranks = ranks, .group = {.run = r, .workers = ranks}};
    w->group.owners = is_gathered(w) ? 0 : sc->owners && sc->owners < ranks ? sc->owners : ranks;
    for (size_t t = 0; t < sc->count; t++)
        w->group.only[t] = sc->tensor[t].only ? (sc->tensor[t].only - 1) % ranks + 1 : 0;
    w->member = take(r, ranks * sizeof *w->member);
    w->objects = take(r, ranks * sizeof(object *));
    w->pushes = take(r, ranks * sizeof(pushed *));
    for (uint32_t i = 0; i < ranks; i++) {
        open_member(w, &w->member[i], i);
        owners[i] = w->member[i].o;
        w->objects[i] = w->member[i].o;
        w->pushes[i] = &w->member[i].push;
    }
    group_learn_parts(&w->group, owners, ranks);
    refuse_creations(r, &w->group, ROLE_RANK, ranks - 1);
    network_open(r);
}

void reduction_place(reduction *w)
{
    for (uint32_t i = 0; i < w->ranks; i++)
        w->member[i].o->group = &w->group;
}

/* The rest of the memory is freed with the run. */
void reduction_close(reduction *w)
{
    network_close(w->run);
    for (uint32_t i = 0; i < w->ranks; i++)
        object_destroy(w->member[i].o);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

static void send_bytes(reduction *w, const member *m, packet_kind kind, uint32_t to, blob *bytes)
{
    network_send(w->run,
                 (packet){.kind = kind, .from = m->o->rank, .to = to, .step = m->o->step, .bytes = blob_keep(bytes)});
}

/* Asks a rank to send its push or answer of this step again. */
static void request(reduction *w, const member *m, int kind, uint32_t from, uint32_t tries)
{
    network_send(w->run, (packet){.kind = kind == PUSHES ? PACKET_REQUEST_PUSH : PACKET_REQUEST_ANSWER,
                                  .from = m->o->rank,
                                  .to = from,
                                  .tries = tries,
                                  .step = m->o->step});
}

static void wake(reduction *w, const member *m)
{
    network_deliver(w->run, (packet){.kind = PACKET_WAKE, .from = m->o->rank, .to = m->o->rank});
}

static void fill_own(member *m, int kind, blob *bytes)
{
    m->in[kind][m->o->rank] = (slot){.bytes = blob_keep(bytes), .filled = 1};
}

/* Sends to all others, or to some of them before it dies. */
static void send_pushes(reduction *w, member *m, int dying)
{
    for (uint32_t i = 0; i < w->ranks; i++)
        if (i != m->o->rank && m->mine[i] && !(dying && (drawn(w->run->sc.seed, ABOUT_DEATH, m->o->step, i, 7) & 1)))
            send_bytes(w, m, PACKET_PUSH, i, m->mine[i]);
    if (m->mine[m->o->rank])
        fill_own(m, PUSHES, m->mine[m->o->rank]);
}

static void send_answers(reduction *w, member *m, int dying)
{
    for (uint32_t i = 0; i < w->ranks; i++)
        if (i != m->o->rank && m->answer && !(dying && (drawn(w->run->sc.seed, ABOUT_DEATH, m->o->step, i, 9) & 1)))
            send_bytes(w, m, PACKET_ANSWER, i, m->answer);
    if (m->answer)
        fill_own(m, ANSWERS, m->answer);
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void die(reduction *w, member *m)
{
    tell(w->run, "step %llu: rank %u dies", (unsigned long long)m->o->step, m->o->rank);
    w->run->found->injected[FAULT_DEATH]++;
    m->phase = DEAD;
}

/* Are all messages here? The others are not asked for again: they come, or their loss does. */
static int all_here(const reduction *w, const member *m, int kind)
{
    for (uint32_t i = 0; i < w->ranks; i++)
        if (!m->in[kind][i].filled && (is_gathered(w) || (kind == PUSHES ? is_owner(w, m->o->rank) : is_owner(w, i))))
            return 0;
    return 1;
}

/* Keeps what came for this step, for messages that come too late. */
static void end_slots(reduction *w, member *m)
{
    const slot nothing = {.filled = 0};

    for (int kind = PUSHES; kind < PHASES; kind++)
        for (uint32_t i = 0; i < w->ranks; i++) {
            slot *s = &m->in[kind][i];
            blob_drop(w->run, m->last[kind][i]);
            m->last[kind][i] = s->condition == WHOLE && !s->causes ? s->bytes : NULL;
            if (!m->last[kind][i])
                blob_drop(w->run, s->bytes);
            *s = nothing;
            if (kind == PUSHES) {
                *s = m->early[i];
                m->early[i] = nothing;
            }
        }
    for (uint32_t i = 0; i < w->ranks; i++) {
        blob_drop(w->run, m->mine[i]);
        m->mine[i] = NULL;
    }
    m->phase = BETWEEN;
}

/* Pulls. What was damaged is fetched again. */
static void try_pull(reduction *w, member *m)
{
    int kind = is_gathered(w) ? PUSHES : ANSWERS;

    if (!all_here(w, m, kind))
        return;
    refuse_calls(w, m);
    if (step_pull(w, m)) {
        end_slots(w, m);
        wake(w, m);
        return;
    }
    for (uint32_t i = 0; i < w->ranks; i++)
        if (!m->in[kind][i].filled && (is_gathered(w) || is_owner(w, i)))
            request(w, m, kind, i, ++m->in[kind][i].tries);
}

/* Does what can be done with the messages that are here. */
static void advance(reduction *w, member *m)
{
    if (m->phase == PUSHED && !is_gathered(w)) {
        if (!all_here(w, m, PUSHES))
            return;
        refuse_calls(w, m);
        step_reduce(w, m);
        int dying = dies(w, m, 2);
        send_answers(w, m, dying);
        if (dying)
            die(w, m);
    }
    if (m->phase == REDUCED || (m->phase == PUSHED && is_gathered(w)))
        try_pull(w, m);
}

static void begin_step(reduction *w, member *m)
{
    if (m->o->step > w->run->sc.steps) {
        m->phase = FINISHED;
        return;
    }
    if (m->o->step % w->run->sc.checkpoint == 0 || !m->saved[0].step) {
        checkpoint_give(w->run, &m->saved[1]);
        m->saved[1] = m->saved[0];
        m->saved[0] = checkpoint_make(m->o);
        digest(w->run, OF_STATE, m->o->step, m->o->rank, m->saved[0].state.data, m->saved[0].state.len);
    }
    between_steps(&m->o, 1);
    w->objects[m->o->rank] = m->o;
    refuse_calls(w, m);
    if (dies(w, m, 0)) {
        die(w, m);
        return;
    }
    step_push(w, m);
    int dying = dies(w, m, 1);
    send_pushes(w, m, dying);
    if (dying)
        die(w, m);
    else
        advance(w, m);
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* What to do with a push that did not come whole: fetch it again, or go on with what there is. */
static int goes_on_with(const reduction *w, const member *m, const packet *p)
{
    uint64_t draw = drawn(w->run->sc.seed, ABOUT_POLICY, p->step, m->o->rank, p->from);

    return !is_gathered(w) && p->kind == PACKET_PUSH && p->tries == 0 && below(draw, 8) < 3;
}

static void receive(reduction *w, member *m, packet *p)
{
    int kind = p->kind == PACKET_PUSH ? PUSHES : ANSWERS;
    int early = kind == PUSHES && p->step == m->o->step + 1;
    slot *s = early ? &m->early[p->from] : &m->in[kind][p->from];

    if ((p->step != m->o->step && !early) || s->filled || (!early && kind == PUSHES && m->phase == REDUCED))
        return;
    if (p->condition == WHOLE)
        *s = (slot){.bytes = blob_keep(p->bytes), .filled = 1, .tries = p->tries};
    else if (goes_on_with(w, m, p)) {
        *s = (slot){.bytes = blob_keep(p->bytes), .filled = 1, .condition = p->condition};
        s->causes = CAUSE(TLC_ERR_CORRUPT) | (p->bytes ? CAUSE(TLC_ERR_CHECKSUM) | CAUSE(TLC_ERR_VERSION) : 0);
    } else if (p->condition == DAMAGED && (kind == ANSWERS || is_gathered(w)) && p->number & 1)
        *s = (slot){.bytes = blob_keep(p->bytes), .filled = 1, .condition = DAMAGED, .tries = p->tries};
    else
        network_send(w->run, (packet){.kind = kind == PUSHES ? PACKET_REQUEST_PUSH : PACKET_REQUEST_ANSWER,
                                      .from = m->o->rank,
                                      .to = p->from,
                                      .tries = p->tries + 1,
                                      .step = p->step});
    if (!early)
        advance(w, m);
}

/* Asks the object for its answer, or gathered push, of the step before. */
static void check_again(reduction *w, const member *m, uint64_t step, const blob *sent)
{
    /* an object keeps answers, and at least two gathered pushes */
    int kept = is_gathered(w) || w->run->sc.keep > 1 || m->phase != REDUCED;
    tlc_message again = {NULL, 0};
    tlc_status status = tlc_allreduce_again(m->o->it, step, &again);

    must(w->run, CALLS, status == (kept ? TLC_OK : TLC_ERR_PARAM), "again: %s", tlc_status_string(status));
    must(w->run, CALLS, !kept || (sent && again.len == sent->len && same(again.data, sent->data, sent->len)),
         "again: other bytes than before");
}

/* Somebody asks for a message again. */
static void serve(reduction *w, member *m, const packet *p)
{
    int kind = p->kind == PACKET_REQUEST_PUSH ? PUSHES : ANSWERS, now = p->step == m->o->step;
    blob *sent = NULL;

    if (p->condition == LOST) { /* the one who asked does so again */
        if (w->member[p->from].phase != DEAD)
            network_send(w->run, (packet){.kind = p->kind,
                                          .from = p->from,
                                          .to = p->to,
                                          .tries = p->tries + 1,
                                          .step = p->step});
        return;
    }
    if (now)
        sent = kind == PUSHES ? m->mine[p->from] : m->phase == REDUCED ? m->answer : NULL;
    else if (p->step + 1 == m->o->step && kind == (is_gathered(w) ? PUSHES : ANSWERS)) {
        sent = kind == PUSHES ? m->last[PUSHES][m->o->rank] : m->phase == REDUCED ? m->older : m->answer;
        if (!w->run->play.reloads) /* a new object has no messages */
            check_again(w, m, p->step, sent);
    }
    if (sent)
        network_send(w->run, (packet){.kind = kind == PUSHES ? PACKET_PUSH : PACKET_ANSWER,
                                      .from = m->o->rank,
                                      .to = p->from,
                                      .tries = p->tries,
                                      .step = p->step,
                                      .bytes = blob_keep(sent)});
}

static void handle(reduction *w, packet *p)
{
    member *m = &w->member[p->to];

    if (m->phase != DEAD)
        switch (p->kind) {
        case PACKET_WAKE: begin_step(w, m); break;
        case PACKET_PUSH:
        case PACKET_ANSWER: receive(w, m, p); break;
        default: serve(w, m, p); break;
        }
    blob_drop(w->run, p->bytes);
}

/* Plays until nothing is under way. Returns 1 if somebody is dead. */
static int play_events(reduction *w)
{
    int deaths = 0;
    packet p;

    for (uint32_t i = 0; i < w->ranks; i++)
        wake(w, &w->member[i]);
    while (network_next(w->run, &p))
        handle(w, &p);
    for (uint32_t i = 0; i < w->ranks; i++)
        deaths += w->member[i].phase == DEAD;
    for (uint32_t i = 0; i < w->ranks && !deaths; i++)
        must(w->run, E2, w->member[i].phase == FINISHED, "rank %u waits for ever in step %llu", i,
             (unsigned long long)w->member[i].o->step);
    return deaths > 0;
}

void run_allreduce(run *r)
{
    reduction w;

    reduction_open(&w, r, r->sc.workers);
    while (play_events(&w))
        go_on(&w);
    finish(&w);
    reduction_close(&w);
}
