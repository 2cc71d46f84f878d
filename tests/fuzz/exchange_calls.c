/* SPDX-License-Identifier: MIT */
#include "exchange_calls.h"
#include <xxhash.h>

/* ---- the run ----------------------------------------------------------------------------------------------------- */

void run_open(run *r, fuzz_input *in)
{
    memset(r, 0, sizeof *r);
    plan_read(&r->plan, in);
    for (uint32_t i = 0; i < r->plan.cfg.workers; i++)
        party_open(&r->party[r->parties++], &r->plan, plan_role(&r->plan), i);
    for (uint32_t i = 0; i < r->plan.cfg.servers; i++)
        party_open(&r->party[r->parties++], &r->plan, SERVER, i);
    r->mail.gather = r->plan.cfg.gather;
    r->calm = 1;
}

static void release_pushes(run *r, const party *server)
{
    for (uint32_t w = 0; w < MOST_RANKS; w++)
        letter_free(&r->held[server->index][w]);
}

void run_close(run *r)
{
    for (size_t i = 0; i < r->parties; i++) {
        if (r->party[i].role == SERVER)
            release_pushes(r, &r->party[i]);
        party_close(&r->party[i]);
    }
    mail_free(&r->mail);
}

void run_restart(run *r, party *p)
{
    const party_role role = p->role;
    const uint32_t index = p->index;

    if (role == SERVER)
        release_pushes(r, p);
    party_close(p);
    party_open(p, &r->plan, role, index);
    r->strange = 1; /* it makes other messages for earlier steps */
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

static int is_calm(values v)
{
    return v.way != HUGE_VALUES && (v.way == NOBODY || (v.weight > 1e-6 && v.weight < 1e6));
}

tlc_status run_push(run *r, party *p, values v)
{
    const void *grads[MOST_TENSORS];
    tlc_message to[MOST_RANKS];
    const uint64_t before = party_digest(p), step = party_step(p);
    const uint32_t receivers = p->role == RANK ? r->plan.cfg.workers : r->plan.cfg.servers;
    const int valid = v.way == NOBODY || (v.weight >= 0x1p-50 && v.weight <= 0x1p50);

    memset(to, FILL, sizeof to);
    party_fill(p, v.way, v.seed);
    for (size_t t = 0; t < r->plan.count; t++) /* tensors of others need no gradient */
        grads[t] = r->plan.tensor[t].only == TLC_NOBODY || r->plan.tensor[t].only == p->index ? p->grad[t] : NULL;
    const uint64_t gradients = party_gradients(p);
    const void *const *given = v.way == NOBODY ? NULL : grads;
    const tlc_status status = p->role == RANK ? tlc_allreduce_push(p->it, given, v.weight, to)
                                              : tlc_worker_push(p->it, given, v.weight, to);
    party_check(p, status, before);
    require(party_gradients(p) == gradients);
    require_status(status, !valid ? TLC_ERR_PARAM : p->turn != IDLE ? TLC_ERR_ORDER : TLC_OK);
    for (uint32_t i = 0; status == TLC_OK && i < receivers; i++)
        mail_post(&r->mail, push_slot(p->index, i), to[i], step);
    if (status)
        require(all_bytes(to, sizeof to, FILL));
    else
        r->calm &= is_calm(v);
    p->turn = status ? p->turn : PUSHED;
    return status;
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

/* Checks what a server says of a genuine push. */
static void check_push(const run *r, const letter *l, const party *server, const tlc_push_info *info, tlc_status status)
{
    const uint64_t now = party_step(server);

    if (l->slot >= ANSWERS || l->slot % MOST_RANKS != server->index) {
        require(status == TLC_ERR_PARAM);
    } else if (l->step > now) {
        require(status == TLC_ERR_ORDER);
    } else if (status) { /* another push of this worker came before */
        require(status == TLC_ERR_ORDER && r->held[server->index][l->slot / MOST_RANKS].len);
    } else {
        require(info->worker == l->slot / MOST_RANKS && info->step == l->step);
        require(l->step == now || info->late);
    }
}

tlc_status run_deliver(run *r, party *server, uint32_t worker)
{
    const uint64_t before = party_digest(server);
    tlc_push_info info, untouched;
    letter l = {.bytes = NULL};

    memset(&untouched, FILL, sizeof untouched);
    untouched.struct_size = sizeof untouched;
    info = untouched;
    letter_copy(&l, &r->mail.slot[push_slot(worker, server->index)]);
    const tlc_status status = tlc_server_push(server->it, letter_message(&l), &info);
    party_check(server, status, before);
    if (l.len && l.genuine)
        check_push(r, &l, server, &info, status);
    if (status) {
        require(same(&info, &untouched, sizeof info));
    } else {
        require(letter_sealed(&l) && info.worker < r->plan.cfg.workers && info.step <= party_step(server));
        r->calm &= l.genuine;
        r->strange |= !l.genuine;
    }
    if (status == TLC_OK && !info.late && !info.repeated) {
        letter *held = &r->held[server->index][info.worker];
        require(!held->len);
        *held = l; /* the server reads it until it answers */
    } else {
        letter_free(&l);
    }
    return status;
}

/* They stay as they are until the step has ended. */
static const float *const *draw_deltas(party *owner, values v)
{
    party_forget_deltas(owner);
    owner->deltas = party_parts(owner);
    owner->delta = malloc((owner->deltas + 1) * sizeof *owner->delta);
    require(owner->delta != NULL);
    for (size_t i = 0; i < owner->deltas; i++) {
        const size_t n = party_part(owner, i).n;
        owner->delta[i] = floats(n);
        fill_floats(owner->delta[i], n, v.way, v.seed + i);
    }
    return (const float *const *)owner->delta;
}

static tlc_status answer_of_server(run *r, party *server, int with_delta, values v)
{
    const uint64_t before = party_digest(server), step = party_step(server);
    const float *const *delta = draw_deltas(server, v);
    tlc_message to_all = {NULL, 77};

    const tlc_status status = tlc_server_answer(server->it, with_delta ? delta : NULL, &to_all);
    party_check(server, status, before);
    if (status) {
        require(status == TLC_ERR_ORDER && !to_all.data && to_all.len == 77);
    } else {
        mail_post(&r->mail, answer_slot(server->index), to_all, step);
        release_pushes(r, server);
        r->calm &= !with_delta || is_calm(v);
    }
    return status;
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* Averages, then answers with these values or the means. */
static tlc_status average_and_answer(party *p, const tlc_message *from, tlc_message *to_all, int with_delta, values v)
{
    const tlc_status status = tlc_allreduce_average(p->it, from);

    if (status && status != TLC_ERR_STEP)
        return status;
    party_check(p, status, 0);
    const float *const *delta = draw_deltas(p, v);
    return tlc_allreduce_answer(p->it, with_delta ? delta : NULL, to_all);
}

/* v: NULL, or as in run_answer. */
static tlc_status reduce_rank(run *r, party *p, int with_delta, const values *v)
{
    const uint64_t before = party_digest(p), step = party_step(p);
    tlc_message from[MOST_RANKS], to_all = {NULL, 77};
    int wrong = 0, strange = 0;

    for (uint32_t i = 0; i < r->plan.cfg.workers; i++) {
        const letter *l = &r->mail.slot[push_slot(i, p->index)];
        from[i] = letter_message(l);
        wrong |= mail_wrong(&r->mail, push_slot(i, p->index), step);
        strange |= !l->genuine;
    }
    const tlc_status status = v ? average_and_answer(p, from, &to_all, with_delta, *v)
                                : tlc_allreduce_reduce(p->it, from, &to_all);
    party_check(p, status, before);
    require_status(status, p->turn != PUSHED || r->plan.cfg.gather ? TLC_ERR_ORDER : TLC_OK);
    if (status) {
        require(!to_all.data && to_all.len == 77);
        return status;
    }
    require((to_all.len != 0) == (party_parts(p) != 0));
    if (to_all.len) {
        tlc_outcome outcome = {.struct_size = sizeof outcome};
        require_status(tlc_allreduce_outcome(p->it, &outcome), TLC_OK);
        require(!wrong || outcome.cause != TLC_OK);
        r->strange |= strange;
        r->calm &= !strange && (!with_delta || is_calm(*v));
    }
    mail_post(&r->mail, answer_slot(p->index), to_all, step);
    p->turn = REDUCED;
    return status;
}

tlc_status run_reduce(run *r, party *p)
{
    if (p->role == RANK)
        return reduce_rank(r, p, 0, NULL);
    const uint64_t before = party_digest(p);
    const tlc_status status = tlc_server_reduce(p->it);
    party_check(p, status, before);
    require(status == TLC_OK || status == TLC_ERR_STEP || status == TLC_ERR_ORDER);
    return status;
}

tlc_status run_answer(run *r, party *owner, int with_delta, values v)
{
    return owner->role == RANK ? reduce_rank(r, owner, with_delta, &v) : answer_of_server(r, owner, with_delta, v);
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

/* Where the messages for a pull lie. Returns how many there are. */
static uint32_t slots_of(const run *r, const party *p, size_t *slot)
{
    const uint32_t count = p->role == WORKER ? r->plan.cfg.servers : r->plan.cfg.workers;

    for (uint32_t i = 0; i < count; i++)
        slot[i] = r->plan.cfg.gather ? push_slot(i, p->index) : answer_slot(i);
    return count;
}

/* Is message i of a pull read? */
static int is_read(const run *r, const party *p, uint32_t i)
{
    return p->role == WORKER || r->plan.cfg.gather || party_parts(&r->party[i]);
}

/* The same messages make the same results. */
static void check_result(run *r, const party *p, const letter *letters, const size_t *slot, uint32_t count,
                         tlc_status status)
{
    result made = {(uint64_t)p->dtype, status ? status : party_results(p)};

    for (uint32_t i = 0; i < count; i++)
        if (is_read(r, p, i)) {
            const letter *l = &letters[slot[i]];
            made.given = XXH3_64bits_withSeed(l->bytes, l->len, made.given);
        }
    fuzz_fold_number(made.got);
    for (size_t i = 0; i < RESULTS && i < r->results; i++)
        require(r->result[i].given != made.given || r->result[i].got == made.got);
    r->result[r->results++ % RESULTS] = made;
}

/* What is not written in a step that failed. */
static void check_unwritten(run *r, const party *p)
{
    if (p->role == RANK) {
        party_require_clear(p);
        return;
    }
    for (uint32_t i = 0; i < r->plan.cfg.servers; i++) {
        tlc_outcome outcome = {.struct_size = sizeof outcome};
        const party *server = run_server(r, i);
        require_status(tlc_worker_outcome(p->it, i, &outcome), TLC_OK);
        for (size_t k = 0; outcome.status && k < party_parts(server); k++) {
            const tlc_part part = party_part(server, k);
            party_require_part_clear(p, &part);
        }
    }
}

/* genuine: no message was altered. */
static tlc_status pull(run *r, party *p, const letter *letters, int genuine)
{
    const uint64_t before = party_digest(p);
    tlc_message from[MOST_RANKS];
    size_t slot[MOST_RANKS] = {0};
    void *out[MOST_TENSORS];
    const uint32_t count = slots_of(r, p, slot);

    for (uint32_t i = 0; i < count; i++)
        from[i] = letter_message(&letters[slot[i]]);
    for (size_t t = 0; t < r->plan.count; t++)
        out[t] = p->out[t];
    party_clear(p);
    const tlc_status status = p->role == RANK ? tlc_allreduce_pull(p->it, from, out)
                                              : tlc_worker_pull(p->it, from, out);
    party_check(p, status, before);
    if (status && status != TLC_ERR_STEP) {
        party_require_clear(p);
        return status;
    }
    if (status)
        check_unwritten(r, p);
    else if (genuine || r->plan.cfg.gather) /* with gather the mean is checked by who takes it */
        party_require_finite(p);
    check_result(r, p, letters, slot, count, status);
    p->turn = IDLE;
    return status;
}

/* Is it the rank's turn to pull, and were all messages made? */
static int can_pull(const run *r, const party *p)
{
    size_t slot[MOST_RANKS];
    const uint32_t count = slots_of(r, p, slot);

    if (p->role == RANK && (p->turn == IDLE || (party_parts(p) && p->turn == PUSHED)))
        return 0;
    for (uint32_t i = 0; i < count; i++)
        if (is_read(r, p, i) && !mail_has(&r->mail, slot[i], party_step(p)))
            return 0;
    return 1;
}

tlc_status run_pull(run *r, party *p)
{
    const uint64_t step = party_step(p);
    size_t slot[MOST_RANKS];
    const uint32_t count = slots_of(r, p, slot);
    int wrong = 0, strange = 0;

    for (uint32_t i = 0; i < count; i++)
        if (is_read(r, p, i)) {
            wrong |= mail_wrong(&r->mail, slot[i], step);
            strange |= !r->mail.slot[slot[i]].genuine;
        }
    tlc_status status = pull(r, p, r->mail.slot, !strange);
    if (status == TLC_OK || status == TLC_ERR_STEP) {
        require(!wrong);
        r->strange |= strange;
        r->calm &= !strange;
    } else if (can_pull(r, p)) { /* with the right messages the step goes on */
        status = pull(r, p, r->mail.honest, 1);
        require(status == TLC_OK || status == TLC_ERR_STEP || (r->strange && status == TLC_ERR_CORRUPT));
    }
    return status;
}

/* ---- again, cancel, join ----------------------------------------------------------------------------------------- */

void run_again(run *r, const party *p, uint64_t step)
{
    tlc_message m = {NULL, 77};
    const uint64_t now = party_step(p);
    const tlc_status status = p->role == RANK ? tlc_allreduce_again(p->it, step, &m)
                                              : tlc_server_again(p->it, step, &m);

    fuzz_fold_number(status);
    switch (status) {
    case TLC_OK: require(step <= now); break;
    case TLC_ERR_ORDER: require(step >= now); break;
    default: require_status(status, step < now ? TLC_ERR_PARAM : TLC_ERR_ORDER); break;
    }
    if (status) {
        require(!m.data && m.len == 77);
        return;
    }
    if (!r->plan.cfg.gather) {
        mail_fetched(&r->mail, answer_slot(p->index), m, step);
        return;
    }
    for (uint32_t i = 0; i < r->plan.cfg.workers; i++)
        mail_fetched(&r->mail, push_slot(p->index, i), m, step);
}

tlc_status run_cancel(party *rank)
{
    const uint64_t before = party_digest(rank);
    const tlc_status status = tlc_allreduce_cancel(rank->it);

    party_check(rank, status, before);
    require_status(status, rank->turn == IDLE ? TLC_ERR_ORDER : TLC_OK);
    rank->turn = IDLE;
    return status;
}

tlc_status run_join(run *r, party *worker, uint64_t step, int ask)
{
    const uint64_t before = party_digest(worker);
    const int open = worker->turn != IDLE && step <= party_step(worker);
    uint64_t taken[MOST_SERVERS] = {0};

    for (uint32_t i = 0; i < r->plan.cfg.servers; i++)
        require_status(tlc_server_taken(run_server(r, i)->it, worker->index, &taken[i]), TLC_OK);
    const tlc_status status = tlc_worker_join(worker->it, step, ask ? taken : NULL);
    party_check(worker, status, before);
    require_status(status, !step || step > LAST_STEP ? TLC_ERR_PARAM : open ? TLC_ERR_ORDER : TLC_OK);
    worker->turn = status ? worker->turn : IDLE;
    return status;
}
