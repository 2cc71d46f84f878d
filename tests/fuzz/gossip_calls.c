/* SPDX-License-Identifier: MIT */
#include "gossip_calls.h"
#include <math.h>

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void open_node(run *r, uint32_t i)
{
    node_open(&r->node[i], &r->plan, i);
    r->known[i].own = node_model(&r->node[i]);
    r->known[i].codecs = 1;
    r->since[i] = 1;
    known_replicas(r, i, r->known[i].own, 0);
    known_check(r, i);
}

void run_open(run *r, fuzz_input *in)
{
    memset(r, 0, sizeof *r);
    gossip_plan_read(&r->plan, in);
    r->nodes = r->plan.common.cfg.workers;
    for (uint32_t i = 0; i < r->nodes; i++)
        open_node(r, i);
}

void run_close(run *r)
{
    for (uint32_t i = 0; i < r->nodes; i++)
        party_close(&r->node[i]);
    mail_free(&r->mail);
}

void run_restart(run *r, uint32_t i)
{
    party_close(&r->node[i]);
    open_node(r, i);
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

/* Checks what became of the model. Returns whether the node stayed. */
static int check_moved(const run *r, const party *p, const float *const *moved, int calm, uint64_t model)
{
    const tlc_outcome o = node_outcome(p);
    const int stayed = o.cause != TLC_OK;

    require(!stayed || (o.cause == TLC_ERR_NONFINITE && o.rank == p->index && node_model(p) == model));
    require(stayed || node_below(p, moved, INFINITY));
    require(!stayed || !calm || !node_below(p, moved, 0x1p60f));
    if (!stayed && r->plan.kind == TLC_GOSSIP_ECD)
        node_require_model(p, moved);
    return stayed;
}

void run_push(run *r, uint32_t i, const movement *m)
{
    party *p = &r->node[i];
    const float *moved[MOST_TENSORS];
    tlc_message to_all = {NULL, 77};

    node_move(p, m, moved);
    const int calm = r->plan.kind == TLC_GOSSIP_DCD && node_model_below(p, 0x1p60f);
    const uint64_t before = party_digest(p), values = party_gradients(p), was = node_model(p), step = party_step(p);
    const tlc_status status = tlc_gossip_push(p->it, moved, &to_all);
    party_check(p, status, before);
    require(party_gradients(p) == values && party_step(p) == step);
    require_status(status, p->turn == IDLE ? TLC_OK : TLC_ERR_ORDER);
    if (status) {
        require(!to_all.data && to_all.len == 77);
        return;
    }
    made *message = made_add(r, to_all, &r->known[i]);
    message->stayed = check_moved(r, p, moved, calm, was);
    if (r->plan.kind == TLC_GOSSIP_DCD)
        r->known[i].own = node_model(p);
    else
        r->known[i].own = known_chain(r->known[i].own, message->digest);
    message->after = r->known[i];
    mail_post(&r->mail, i, to_all, step);
    known_check(r, i);
    p->turn = PUSHED;
}

void run_again(run *r, uint32_t i, uint64_t step)
{
    const party *p = &r->node[i];
    const uint64_t now = party_step(p), before = party_digest(p);
    tlc_message m = {NULL, 77};
    const tlc_status status = tlc_gossip_again(p->it, step, &m);

    fuzz_fold_number(status);
    require(party_digest(p) == before);
    if (status) {
        require(!m.data && m.len == 77);
        require_status(status, step < now ? TLC_ERR_PARAM : TLC_ERR_ORDER);
        require(step != now || p->turn == IDLE);
        require(step >= now || step < r->since[i] || step + 1 + (p->turn == IDLE) < now); /* two are kept */
    } else {
        require(step < now || (step == now && p->turn == PUSHED));
        mail_fetched(&r->mail, i, m, step);
    }
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

/* Checks what the node says of neighbour k, after a pull, and whether it lost it: a replica became infinite. Returns
 * whether it must say that not all went well. */
static int check_taken(const run *r, const party *p, const tlc_outcome *o, size_t k)
{
    const uint32_t j = run_row(r, p->index)->neighbour[k];
    const known *has = &r->known[p->index];
    const made *m = made_find(r, &r->mail.slot[j]);
    const int lost = tlc_gossip_lost(p->it, k), taken = o->taken[0] >> j & 1, stayed = m && m->stayed;

    if (has->lost[j]) {
        require(lost && !taken);
        return 0;
    }
    require(!lost || !m || m->before.own != has->replica[j]);
    require(!(lost && taken) && (lost || !m || stayed || taken));
    require(!stayed || r->plan.kind == TLC_GOSSIP_ECD || !taken);
    return lost || stayed;
}

static void check_outcome(const run *r, const party *p)
{
    const gossip_row *row = run_row(r, p->index);
    const tlc_outcome o = node_outcome(p);
    unsigned in_row = 0;
    int bad = 0;

    require(o.taken != NULL);
    for (size_t k = 0; k < row->degree; k++) {
        bad |= check_taken(r, p, &o, k);
        in_row |= 1U << row->neighbour[k];
    }
    for (uint32_t j = 0; j < r->nodes; j++)
        require((in_row >> j & 1) || (o.taken[0] >> j & 1) == (j == p->index));
    require(!bad || o.cause == TLC_ERR_NONFINITE);
}

/* The replica of neighbour k took its frames. */
static void take_push(run *r, const party *p, size_t k)
{
    const uint32_t j = run_row(r, p->index)->neighbour[k];
    const made *m = made_find(r, &r->mail.slot[j]);
    known *has = &r->known[p->index];

    has->lost[j] = tlc_gossip_lost(p->it, k);
    has->replica[j] = !has->lost[j] && m && has->replica[j] == m->before.own ? m->after.own : 0;
}

static tlc_status pull(run *r, party *p)
{
    const gossip_row *row = run_row(r, p->index);
    const uint64_t before = party_digest(p), step = party_step(p), model = node_model(p);
    tlc_message from[MOST_NODES];

    for (size_t k = 0; k < row->degree; k++)
        from[k] = letter_message(&r->mail.slot[row->neighbour[k]]);
    const tlc_status status = tlc_gossip_pull(p->it, from);
    party_check(p, status, before);
    require(p->turn == PUSHED || status == TLC_ERR_ORDER);
    require(node_model(p) == model && party_step(p) == step + !status);
    if (status)
        return status;
    check_outcome(r, p);
    for (size_t k = 0; k < row->degree; k++)
        take_push(r, p, k);
    p->turn = IDLE;
    known_check(r, p->index);
    node_fold(p);
    return status;
}

tlc_status run_pull(run *r, uint32_t i)
{
    const gossip_row *row = run_row(r, i);
    party *p = &r->node[i];
    const uint64_t step = party_step(p);
    int wrong = p->turn != PUSHED, can = p->turn == PUSHED;
    unsigned suspects = 0;

    for (size_t k = 0; k < row->degree; k++) {
        const uint32_t j = row->neighbour[k];
        if (r->known[i].lost[j])
            continue;
        const int wrong_one = mail_wrong(&r->mail, j, step);
        wrong |= wrong_one;
        suspects |= (unsigned)(wrong_one || !r->mail.slot[j].genuine) << j;
        can &= mail_has(&r->mail, j, step);
    }
    tlc_status status = pull(r, p);
    require(wrong ? status != TLC_OK : suspects || !status);
    require(p->turn != PUSHED || node_told(suspects));
    if (!status || !can)
        return status;
    for (size_t k = 0; k < row->degree; k++) /* with the right messages the step goes on */
        letter_copy(&r->mail.slot[row->neighbour[k]], &r->mail.honest[row->neighbour[k]]);
    status = pull(r, p);
    require_status(status, TLC_OK);
    return status;
}

void run_mean(run *r, uint32_t i)
{
    const gossip_row *row = run_row(r, i);
    const party *neighbour[MOST_NODES] = {NULL};

    for (size_t t = 0; t < r->plan.common.count && r->node[i].turn != IDLE; t++)
        require(!tlc_gossip_mean(r->node[i].it, t));
    if (r->plan.kind == TLC_GOSSIP_ECD || r->node[i].turn != IDLE)
        return;
    for (size_t k = 0; k < row->degree; k++) {
        const uint32_t j = row->neighbour[k];
        if (!r->known[i].lost[j] && r->known[i].replica[j] != r->known[j].own)
            return;
        neighbour[k] = r->known[i].lost[j] ? NULL : &r->node[j];
    }
    node_require_mean(&r->node[i], row, neighbour);
}
