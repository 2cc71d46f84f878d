/* SPDX-License-Identifier: MIT
 *
 * The calls between two steps.
 */
#include "gossip_calls.h"
#include <math.h>

/* ---- hellos ------------------------------------------------------------------------------------------------------ */

void run_hello(run *r, uint32_t i, int full)
{
    party *p = &r->node[i];
    const uint64_t before = party_digest(p);
    tlc_message to_all = {NULL, 77};
    const tlc_status status = tlc_gossip_hello(p->it, full, &to_all);

    party_check(p, status, before);
    require_status(status, p->turn == IDLE ? TLC_OK : TLC_ERR_ORDER);
    if (status) {
        require(!to_all.data && to_all.len == 77);
        return;
    }
    made *message = made_add(r, to_all, &r->known[i]);
    message->after = r->known[i];
    message->full = full;
    mail_post(&r->mail, HELLOS + i, to_all, party_step(p));
    require(party_digest(p) == before);
}

typedef enum verdict { REFUSED, UNSURE, TAKEN } verdict;

/* What must become of the hello that lies there for node i from node j? */
static verdict expect_hello(const run *r, uint32_t i, uint32_t j)
{
    const known *k = &r->known[i];
    const letter *l = &r->mail.slot[HELLOS + j];
    const made *m = made_find(r, l);
    const uint32_t first = run_row(r, 0)->neighbour[0];

    if (mail_wrong(&r->mail, HELLOS + j, party_step(&r->node[i])))
        return REFUSED;
    if (!m)
        return UNSURE;
    if (r->plan.skewed && ((i == 0 && j == first) || (j == 0 && i == first)))
        return REFUSED;
    if (!k->codecs || k->codecs != m->after.codecs)
        return UNSURE;
    if (m->full || k->lost[j] || k->replica[j] == m->after.own)
        return TAKEN;
    return k->replica[j] && r->plan.kind == TLC_GOSSIP_DCD ? REFUSED : UNSURE;
}

/* Node i took the hello that lies there from node j. */
static void take_hello(run *r, uint32_t i, uint32_t j, int lost)
{
    const made *m = made_find(r, &r->mail.slot[HELLOS + j]);
    known *k = &r->known[i];

    if (m && !m->full)
        return;
    k->replica[j] = m ? m->after.own : 0; /* if no node made it, it may have been a full one */
    k->lost[j] = m ? 0 : lost;
}

tlc_status run_greet(run *r, uint32_t i, unsigned asked)
{
    const gossip_row *row = run_row(r, i);
    const party *p = &r->node[i];
    const uint64_t before = party_digest(p), model = node_model(p);
    tlc_message from[MOST_NODES];
    verdict all = TAKEN;
    unsigned suspects = 0;

    for (size_t k = 0; k < row->degree; k++) {
        const uint32_t j = row->neighbour[k];
        from[k] = asked >> j & 1 ? letter_message(&r->mail.slot[HELLOS + j]) : (tlc_message){NULL, 0};
        const verdict one = from[k].len ? expect_hello(r, i, j) : TAKEN;
        suspects |= (unsigned)(one != TAKEN) << j;
        all = one < all ? one : all;
    }
    const tlc_status status = tlc_gossip_greet(p->it, from);
    party_check(p, status, before);
    require(p->turn == IDLE ? all == UNSURE || (all == TAKEN) == (status == TLC_OK) : status == TLC_ERR_ORDER);
    require(p->turn != IDLE || !status || node_told(suspects));
    require(node_model(p) == model);
    for (size_t k = 0; !status && k < row->degree; k++)
        if (from[k].len)
            take_hello(r, i, row->neighbour[k], tlc_gossip_lost(p->it, k));
    known_check(r, i);
    return status;
}

/* ---- neighbours and codecs --------------------------------------------------------------------------------------- */

void run_lose(run *r, uint32_t i, size_t neighbour)
{
    const gossip_row *row = run_row(r, i);
    const uint64_t before = party_digest(&r->node[i]);
    const tlc_status status = tlc_gossip_lose(r->node[i].it, neighbour);

    party_check(&r->node[i], status, before);
    require_status(status, neighbour < row->degree ? TLC_OK : TLC_ERR_PARAM);
    if (!status) {
        r->known[i].lost[row->neighbour[neighbour]] = 1;
        r->known[i].replica[row->neighbour[neighbour]] = 0;
    }
    known_check(r, i);
}

void run_join(run *r, uint32_t i, uint64_t step, const movement *m)
{
    party *p = &r->node[i];
    const float *model[MOST_TENSORS];

    if (m)
        node_move(p, m, model);
    const int finite = !m || node_below(p, model, INFINITY), open = p->turn != IDLE && step <= party_step(p);
    const uint64_t before = party_digest(p);
    const tlc_status status = tlc_gossip_join(p->it, step, m ? model : NULL);
    party_check(p, status, before);
    require((status == TLC_OK) == (finite && !open && step && step <= LAST_STEP));
    if (status) {
        require(status == (!step || step > LAST_STEP ? TLC_ERR_PARAM : open ? TLC_ERR_ORDER : TLC_ERR_NONFINITE));
        return;
    }
    if (m)
        node_require_model(p, model);
    require(party_step(p) == step);
    r->known[i].own = node_model(p);
    known_replicas(r, i, 0, 1);
    r->since[i] = step;
    known_check(r, i);
    p->turn = IDLE;
}

void run_set_codec(run *r, uint32_t i, size_t tensor, size_t codec)
{
    const party *p = &r->node[i];
    const uint64_t before = party_digest(p);
    const tlc_status status = tlc_gossip_set_codec(p->it, tensor, codecs[codec].text);

    fuzz_fold_number(status);
    require(status == TLC_OK || party_digest(p) == before);
    require(gossip_codec(&codecs[codec]) || status == TLC_ERR_PARAM);
    if (status == TLC_OK && r->known[i].codecs)
        r->known[i].codecs = known_chain(r->known[i].codecs, tensor == TLC_ALL ? codec : codec + 1000 * (tensor + 1));
    known_check(r, i);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

void run_save(run *r, uint32_t i, saved *to)
{
    const tlc_message state = party_save(&r->node[i]);

    fuzz_fold_number(state.len);
    if (!state.len)
        return;
    fuzz_fold(state.data, state.len, 1);
    letter_write(&to->state, state, 0, party_step(&r->node[i]));
    to->node = i;
    to->known = r->known[i];
    free((void *)(uintptr_t)state.data);
}

/* Are these states of all nodes, in the same step? */
static int is_whole(const run *r, const saved *const *states, size_t count)
{
    unsigned nodes = 0;

    for (size_t s = 0; s < count; s++)
        nodes |= (unsigned)(states[s]->state.step == states[0]->state.step) << states[s]->node;
    return count == r->nodes && nodes == (1U << count) - 1;
}

/* Models and replicas became the mean of all. */
static void take_mean(run *r, uint32_t i, const saved *const *states, size_t count)
{
    known *k = &r->known[i];

    k->own = node_model(&r->node[i]);
    k->codecs = states[0]->known.codecs;
    for (size_t s = 1; s < count; s++)
        if (states[s]->known.codecs != k->codecs)
            k->codecs = 0;
    known_replicas(r, i, k->own, 0);
}

void run_load(run *r, uint32_t i, const saved *const *states, size_t count)
{
    party *p = &r->node[i];
    tlc_message messages[MOST_NODES];
    int genuine = 1;

    for (size_t s = 0; s < count; s++) {
        messages[s] = letter_message(&states[s]->state);
        genuine &= states[s]->state.genuine && states[s]->state.len;
    }
    const int own = genuine && count == 1 && states[0]->node == i;
    const int whole = genuine && is_whole(r, states, count);
    const uint64_t before = party_digest(p);
    const tlc_status status = tlc_gossip_state_load(p->it, messages, count);
    party_check(p, status, before);
    require(!genuine || (status == TLC_OK) == ((own || whole) && p->turn == IDLE));
    if (status)
        return;
    require(p->turn == IDLE && count);
    if (own) {
        r->known[i] = states[0]->known;
        party_require_state(p, messages[0]);
    } else if (whole) {
        take_mean(r, i, states, count);
    } else {
        known_forget(r, i);
    }
    r->since[i] = party_step(p);
    known_check(r, i);
    node_fold(p);
}
