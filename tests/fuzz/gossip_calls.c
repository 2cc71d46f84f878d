/* SPDX-License-Identifier: MIT */
#include "gossip_calls.h"
#include <math.h>
#include <xxhash.h>

/* ---- what is known ----------------------------------------------------------------------------------------------- */

static uint64_t chain(uint64_t number, uint64_t next)
{
    const uint64_t digest = XXH3_64bits_withSeed(&next, sizeof next, number);
    return digest ? digest : 1;
}

static const gossip_row *row_of(const run *r, uint32_t i)
{
    return &r->plan.row[i];
}

static uint64_t step_of(const party *p)
{
    return tlc_gossip_step(p->it);
}

/* All replicas of a node are this, or not known, and lost, or not. */
static void set_replicas(run *r, uint32_t i, uint64_t replica, int lost)
{
    for (size_t k = 0; k < row_of(r, i)->degree; k++) {
        const uint32_t j = row_of(r, i)->neighbour[k];
        r->known[i].replica[j] = replica;
        r->known[i].lost[j] = lost;
    }
}

/* What a node has of which not all is known. */
static void forget(run *r, uint32_t i)
{
    known *k = &r->known[i];

    k->own = r->plan.kind == TLC_DCD ? node_model(&r->node[i]) : chain(0, ++r->forgotten);
    k->codecs = 0;
    set_replicas(r, i, 0, 0);
    for (size_t n = 0; n < row_of(r, i)->degree; n++)
        k->lost[row_of(r, i)->neighbour[n]] = tlc_gossip_lost(r->node[i].it, n);
}

/* Are all values below this? */
static int all_below(const party *p, const float *const *values, float most)
{
    for (size_t t = 0; t < p->plan->count; t++)
        for (size_t i = 0; i < p->plan->tensor[t].n; i++)
            if (!(fabsf(values[t][i]) < most))
                return 0;
    return 1;
}

static int model_below(const party *p, float most)
{
    const float *model[MOST_TENSORS];

    for (size_t t = 0; t < p->plan->count; t++)
        model[t] = tlc_gossip_model(p->it, t);
    return all_below(p, model, most);
}

static void check_known(const run *r, uint32_t i)
{
    const gossip_row *row = row_of(r, i);

    require(model_below(&r->node[i], INFINITY));
    require(r->plan.kind == TLC_ECD || r->known[i].own == node_model(&r->node[i]));
    for (size_t k = 0; k < row->degree; k++)
        require(tlc_gossip_lost(r->node[i].it, k) == r->known[i].lost[row->neighbour[k]]);
    require(!tlc_gossip_lost(r->node[i].it, row->degree));
}

static uint64_t digest_of(const uint8_t *data, size_t len)
{
    return XXH3_64bits(data, len);
}

static made *add_made(run *r, tlc_message message, const known *before)
{
    made *m = &r->made[r->count++ % MOST_MADE];

    *m = (made){.digest = digest_of(message.data, message.len), .before = *before};
    return m;
}

/* NULL: none made it, or that is long ago. */
static const made *find_made(const run *r, const letter *l)
{
    const uint64_t digest = digest_of(l->bytes, l->len);

    for (size_t back = 1; l->genuine && back <= MOST_MADE && back <= r->count; back++)
        if (r->made[(r->count - back) % MOST_MADE].digest == digest)
            return &r->made[(r->count - back) % MOST_MADE];
    return NULL;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static void open_node(run *r, uint32_t i)
{
    node_open(&r->node[i], &r->plan, i);
    r->known[i].own = node_model(&r->node[i]);
    r->known[i].codecs = 1;
    r->since[i] = 1;
    set_replicas(r, i, r->known[i].own, 0);
    check_known(r, i);
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

static tlc_outcome outcome_of(const party *p)
{
    tlc_outcome o = {.struct_size = sizeof o};

    require_status(tlc_gossip_outcome(p->it, &o), TLC_OK);
    return o;
}

/* Does the outcome name one of these nodes? */
static int is_among(const party *p, unsigned nodes)
{
    const tlc_outcome o = outcome_of(p);

    return o.rank < MOST_NODES && (nodes >> o.rank & 1);
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

/* Fills p->grad, and values with it. */
static void move(party *p, const movement *m, const float **values)
{
    party_fill(p, m->way, m->seed);
    for (size_t t = 0; t < p->plan->count; t++) {
        float *x = (float *)(void *)p->grad[t];
        const float *mean = tlc_gossip_mean(p->it, t);
        const size_t n = p->plan->tensor[t].n;
        for (size_t i = 0; m->from_mean && i < n; i++)
            x[i] = mean[i] + 0.125f * x[i];
        for (size_t i = 0; i < m->count && i < n; i++)
            x[i] = m->given[i];
        values[t] = x;
    }
}

/* The model of ECD is where it moved to. */
static void require_there(const party *p, const float *const *moved)
{
    for (size_t t = 0; t < p->plan->count; t++)
        require(same(tlc_gossip_model(p->it, t), moved[t], 4 * p->plan->tensor[t].n));
}

/* Checks what became of the model. Returns whether the node stayed. */
static int check_moved(const run *r, const party *p, const float *const *moved, int calm, uint64_t model)
{
    const tlc_outcome o = outcome_of(p);
    const int stayed = o.cause != TLC_OK;

    require(!stayed || (o.cause == TLC_ERR_NONFINITE && o.rank == p->index && node_model(p) == model));
    require(stayed || all_below(p, moved, INFINITY));
    require(!stayed || !calm || !all_below(p, moved, 0x1p60f));
    if (!stayed && r->plan.kind == TLC_ECD)
        require_there(p, moved);
    return stayed;
}

void run_push(run *r, uint32_t i, const movement *m)
{
    party *p = &r->node[i];
    const float *moved[MOST_TENSORS];
    tlc_message to_all = {NULL, 77};

    move(p, m, moved);
    const int calm = r->plan.kind == TLC_DCD && model_below(p, 0x1p60f);
    const uint64_t before = party_digest(p), values = party_gradients(p), was = node_model(p), step = step_of(p);
    const tlc_status status = tlc_gossip_push(p->it, moved, &to_all);
    party_check(p, status, before);
    require(party_gradients(p) == values && step_of(p) == step);
    require_status(status, p->turn == IDLE ? TLC_OK : TLC_ERR_ORDER);
    if (status) {
        require(!to_all.data && to_all.len == 77);
        return;
    }
    made *message = add_made(r, to_all, &r->known[i]);
    message->stayed = check_moved(r, p, moved, calm, was);
    if (r->plan.kind == TLC_DCD)
        r->known[i].own = node_model(p);
    else
        r->known[i].own = chain(r->known[i].own, message->digest);
    message->after = r->known[i];
    mail_post(&r->mail, i, to_all, step);
    check_known(r, i);
    p->turn = PUSHED;
}

void run_again(run *r, uint32_t i, uint64_t step)
{
    const party *p = &r->node[i];
    const uint64_t now = step_of(p), before = party_digest(p);
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

/* Checks what the node says of its neighbours. */
static void check_outcome(const run *r, const party *p)
{
    const gossip_row *row = row_of(r, p->index);
    const tlc_outcome o = outcome_of(p);
    int stayed = 0, in_row[MOST_NODES] = {0};

    require(o.taken != NULL);
    for (size_t k = 0; k < row->degree; k++) {
        const uint32_t j = row->neighbour[k];
        const made *m = find_made(r, &r->mail.slot[j]);
        const int lost = r->known[p->index].lost[j], taken = o.taken[0] >> j & 1;
        in_row[j] = 1;
        stayed |= !lost && m && m->stayed;
        require(!(lost && taken) && (lost || !m || m->stayed || taken));
        require(!m || !m->stayed || r->plan.kind == TLC_ECD || !taken);
    }
    for (uint32_t j = 0; j < r->nodes; j++)
        require(in_row[j] || (o.taken[0] >> j & 1) == (j == p->index));
    require(!stayed || o.cause == TLC_ERR_NONFINITE);
}

/* The replica of node j in node i took its frames. */
static void take_push(run *r, uint32_t i, uint32_t j)
{
    const made *m = find_made(r, &r->mail.slot[j]);
    uint64_t *replica = &r->known[i].replica[j];

    if (!r->known[i].lost[j])
        *replica = m && *replica == m->before.own ? m->after.own : 0;
}

static tlc_status pull(run *r, party *p)
{
    const gossip_row *row = row_of(r, p->index);
    const uint64_t before = party_digest(p), step = step_of(p), model = node_model(p);
    tlc_message from[MOST_NODES];

    for (size_t k = 0; k < row->degree; k++)
        from[k] = letter_message(&r->mail.slot[row->neighbour[k]]);
    const tlc_status status = tlc_gossip_pull(p->it, from);
    party_check(p, status, before);
    require(p->turn == PUSHED || status == TLC_ERR_ORDER);
    require(node_model(p) == model && step_of(p) == step + !status);
    if (status)
        return status;
    check_outcome(r, p);
    for (size_t k = 0; k < row->degree; k++)
        take_push(r, p->index, row->neighbour[k]);
    p->turn = IDLE;
    check_known(r, p->index);
    node_fold(p);
    return status;
}

tlc_status run_pull(run *r, uint32_t i)
{
    const gossip_row *row = row_of(r, i);
    party *p = &r->node[i];
    const uint64_t step = step_of(p);
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
    require(p->turn != PUSHED || is_among(p, suspects));
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
    const gossip_row *row = row_of(r, i);
    const party *neighbour[MOST_NODES] = {NULL};

    if (r->plan.kind == TLC_ECD || r->node[i].turn != IDLE)
        return;
    for (size_t k = 0; k < row->degree; k++) {
        const uint32_t j = row->neighbour[k];
        if (!r->known[i].lost[j] && r->known[i].replica[j] != r->known[j].own)
            return;
        neighbour[k] = r->known[i].lost[j] ? NULL : &r->node[j];
    }
    node_require_mean(&r->node[i], row, neighbour);
}

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
    made *message = add_made(r, to_all, &r->known[i]);
    message->after = r->known[i];
    message->full = full;
    mail_post(&r->mail, HELLOS + i, to_all, step_of(p));
    require(party_digest(p) == before);
}

typedef enum verdict { REFUSED, UNSURE, TAKEN } verdict;

/* What must become of the hello that lies there for node i from node j? */
static verdict expect_hello(const run *r, uint32_t i, uint32_t j)
{
    const known *k = &r->known[i];
    const letter *l = &r->mail.slot[HELLOS + j];
    const made *m = find_made(r, l);
    const uint32_t first = row_of(r, 0)->neighbour[0];

    if (mail_wrong(&r->mail, HELLOS + j, step_of(&r->node[i])))
        return REFUSED;
    if (!m)
        return UNSURE;
    if (r->plan.skewed && ((i == 0 && j == first) || (j == 0 && i == first)))
        return REFUSED;
    if (!k->codecs || k->codecs != m->after.codecs)
        return UNSURE;
    if (m->full || k->lost[j] || k->replica[j] == m->after.own)
        return TAKEN;
    return k->replica[j] && r->plan.kind == TLC_DCD ? REFUSED : UNSURE;
}

/* Node i took the hello that lies there from node j. */
static void take_hello(run *r, uint32_t i, uint32_t j, int lost)
{
    const made *m = find_made(r, &r->mail.slot[HELLOS + j]);
    known *k = &r->known[i];

    if (m && !m->full)
        return;
    k->replica[j] = m ? m->after.own : 0; /* no node made it: it may have been a full one */
    k->lost[j] = m ? 0 : lost;
}

tlc_status run_greet(run *r, uint32_t i, unsigned asked)
{
    const gossip_row *row = row_of(r, i);
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
    require(p->turn != IDLE || !status || is_among(p, suspects));
    require(node_model(p) == model);
    for (size_t k = 0; !status && k < row->degree; k++)
        if (from[k].len)
            take_hello(r, i, row->neighbour[k], tlc_gossip_lost(p->it, k));
    check_known(r, i);
    return status;
}

/* ---- between steps ----------------------------------------------------------------------------------------------- */

void run_lose(run *r, uint32_t i, size_t neighbour)
{
    const gossip_row *row = row_of(r, i);
    const uint64_t before = party_digest(&r->node[i]);
    const tlc_status status = tlc_gossip_lose(r->node[i].it, neighbour);

    party_check(&r->node[i], status, before);
    require_status(status, neighbour < row->degree ? TLC_OK : TLC_ERR_PARAM);
    if (!status) {
        r->known[i].lost[row->neighbour[neighbour]] = 1;
        r->known[i].replica[row->neighbour[neighbour]] = 0;
    }
    check_known(r, i);
}

void run_join(run *r, uint32_t i, uint64_t step, const movement *m)
{
    party *p = &r->node[i];
    const float *model[MOST_TENSORS];

    if (m)
        move(p, m, model);
    const int finite = !m || all_below(p, model, INFINITY), open = p->turn != IDLE && step <= step_of(p);
    const uint64_t before = party_digest(p);
    const tlc_status status = tlc_gossip_join(p->it, step, m ? model : NULL);
    party_check(p, status, before);
    require((status == TLC_OK) == (finite && !open && step && step <= LAST_STEP));
    if (status) {
        require(status == (!step || step > LAST_STEP ? TLC_ERR_PARAM : open ? TLC_ERR_ORDER : TLC_ERR_NONFINITE));
        return;
    }
    if (m)
        require_there(p, model);
    require(step_of(p) == step);
    r->known[i].own = node_model(p);
    set_replicas(r, i, 0, 1);
    r->since[i] = step;
    check_known(r, i);
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
        r->known[i].codecs = chain(r->known[i].codecs, tensor == TLC_ALL ? codec : codec + 1000 * (tensor + 1));
    check_known(r, i);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

void run_save(run *r, uint32_t i, saved *to)
{
    const tlc_message state = party_save(&r->node[i]);

    fuzz_fold_number(state.len);
    if (!state.len)
        return;
    fuzz_fold(state.data, state.len, 1);
    letter_write(&to->state, state, 0, step_of(&r->node[i]));
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
    set_replicas(r, i, k->own, 0);
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
    require(!genuine || own || whole || status);
    if (status) {
        require(!own || p->turn != IDLE);
        return;
    }
    require(p->turn == IDLE && count);
    if (own) {
        r->known[i] = states[0]->known;
        party_require_state(p, messages[0]);
    } else if (whole) {
        take_mean(r, i, states, count);
    } else {
        forget(r, i);
    }
    r->since[i] = step_of(p);
    check_known(r, i);
    node_fold(p);
}
