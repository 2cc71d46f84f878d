/* SPDX-License-Identifier: MIT
 *
 * E1: a call that fails with anything but TLC_ERR_STEP changes nothing. Every function is called with bad arguments and
 * out of turn, in every phase of a step. Afterwards the fleet goes on with the very bytes of a twin that was left
 * alone. (Messages and states at fault: e1_wrong_messages_change_nothing.c.)
 */
#include "../support/exchange_view.h"
#include <float.h>
#include <math.h>

enum { RANKS = 3, CONV = 1, WIDE = 3 };

/* How far a step of an object is. */
typedef enum phase { IDLE, PUSHED, AVERAGED, REDUCED } phase; /* AVERAGED: of ranks */

/* ---- what all objects have --------------------------------------------------------------------------------------- */

/* Functions that any phase allows. */
static void refuse_queries(watch *w)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats.struct_size - 1};
    tlc_outcome told = {.struct_size = sizeof told.struct_size - 1};
    tlc_part p = {.struct_size = sizeof p.struct_size - 1};
    member m = w->m;

    REFUSED(w, MEMBER(m, stats, NULL), TLC_ERR_PARAM);
    REFUSED(w, MEMBER(m, stats, &stats), TLC_ERR_PARAM);
    REFUSED(w, member_ask_outcome(m, 0, NULL), TLC_ERR_PARAM);
    REFUSED(w, member_ask_outcome(m, 0, &told), TLC_ERR_PARAM);
    if (m.worker) {
        told.struct_size = sizeof told;
        REFUSED(w, tlc_worker_outcome(m.worker, w->f->cfg.servers, &told), TLC_ERR_PARAM);
        return;
    }
    REFUSED(w, member_ask_part(m, 0, NULL), TLC_ERR_PARAM);
    REFUSED(w, member_ask_part(m, 0, &p), TLC_ERR_PARAM);
    p.struct_size = sizeof p;
    REFUSED(w, member_ask_part(m, member_parts(m), &p), TLC_ERR_PARAM);
    REFUSED(w, member_ask_part(m, SIZE_MAX, &p), TLC_ERR_PARAM);
    require(!p.mean && !told.sentence[0] && !stats.steps);
}

/* Does it own a part of this tensor? */
static int owns(member m, size_t tensor)
{
    for (size_t i = 0; i < member_parts(m); i++)
        if (member_part(m, i).tensor == tensor)
            return 1;
    return 0;
}

static void refuse_codecs(watch *w)
{
    member m = w->m;

    REFUSED(w, member_set_codec(m, CONV, "4lc"), TLC_ERR_PARAM);
    REFUSED(w, member_set_codec(m, TLC_ALL, ""), TLC_ERR_PARAM);
    REFUSED(w, member_set_codec(m, TENSORS, "3lc"), TLC_ERR_PARAM);
    REFUSED(w, member_set_codec(m, 0, "3lc"), TLC_ERR_PARAM); /* it is small */
    REFUSED(w, member_set_codec(m, TLC_ALL, "raw:block=1"), TLC_ERR_CAPACITY);
    if (!m.server) /* it fits to some parts, but not to "conv" */
        REFUSED(w, member_set_codec(m, TLC_ALL, "raw:block=16"), TLC_ERR_CAPACITY);
    if (m.worker)
        REFUSED(w, tlc_worker_set_codec(m.worker, CONV, NULL), TLC_ERR_PARAM);
    if (m.server)
        REFUSED(w, tlc_server_set_codec(m.server, CONV, NULL), TLC_ERR_PARAM);
    if (!m.rank)
        return;
    /* both change or none */
    REFUSED(w, tlc_allreduce_set_codec(m.rank, CONV, "sbc", "4lc"), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_set_codec(m.rank, CONV, "4lc", "sbc"), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_set_codec(m.rank, CONV, "raw:block=1", "sbc"), TLC_ERR_CAPACITY);
    if (owns(m, CONV))
        REFUSED(w, tlc_allreduce_set_codec(m.rank, CONV, "sbc", "raw:block=1"), TLC_ERR_CAPACITY);
}

static void refuse_states(watch *w, phase s)
{
    int loads = s == IDLE, saves = s == IDLE || (w->m.server && s == PUSHED);
    size_t size = member_state_size(w->m), written = 77;
    uint8_t *state = bytes(size);
    const tlc_message none = {NULL, 0}, part_of_one = {state, 3};

    memset(state, OUT_FILL, size);
    REFUSED(w, MEMBER(w->m, state_load, NULL, 1), loads ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, state_load, &none, 0), loads ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, state_load, &none, 1), loads ? TLC_ERR_CORRUPT : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, state_load, &part_of_one, 1), loads ? TLC_ERR_CORRUPT : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, state_save, NULL, size, &written), saves ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, state_save, state, size, NULL), saves ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    for (size_t cap = 0; cap < size; cap += 1 + cap / 8)
        REFUSED(w, MEMBER(w->m, state_save, state, cap, &written), saves ? TLC_ERR_CAPACITY : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, state_save, state, size - 1, &written), saves ? TLC_ERR_CAPACITY : TLC_ERR_ORDER);
    require(written == 77 && all_bytes(state, size, OUT_FILL));
    free(state);
}

static void refuse_factors(watch *w, phase s)
{
    int in_turn = s == IDLE || (w->m.server && s == PUSHED);

    REFUSED(w, MEMBER(w->m, residual_scale, NAN), in_turn ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, residual_scale, INFINITY), in_turn ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    REFUSED(w, MEMBER(w->m, residual_scale, -INFINITY), in_turn ? TLC_ERR_PARAM : TLC_ERR_ORDER);
    if (!in_turn)
        REFUSED(w, MEMBER(w->m, residual_scale, 0.5f), TLC_ERR_ORDER);
}

/* ---- those who push ---------------------------------------------------------------------------------------------- */

static void refuse_pushes(watch *w, phase s)
{
    static const double weights[] = {0, -1, NAN, INFINITY, -INFINITY, 0x1.fffffp-51, 0x1.00001p50, DBL_MAX, DBL_MIN};
    const fleet *f = w->f;
    const void *grads[TENSORS];
    tlc_message to[RANKS], untouched[RANKS];

    memset(to, OUT_FILL, sizeof to);
    memset(untouched, OUT_FILL, sizeof untouched);
    for (size_t t = 0; t < TENSORS; t++)
        grads[t] = f->grad[w->index * TENSORS + t];
    REFUSED(w, member_push(w->m, grads, 1, NULL), TLC_ERR_PARAM);
    REFUSED(w, member_push(w->m, NULL, 1, NULL), TLC_ERR_PARAM);
    for (size_t i = 0; i < COUNT(weights); i++)
        REFUSED(w, member_push(w->m, grads, weights[i], to), TLC_ERR_PARAM);
    for (size_t t = 0; t < TENSORS; t++) {
        const void *was = grads[t];
        grads[t] = NULL;
        if (f->tensors[t].n && is_sent(&f->tensors[t], w->index))
            REFUSED(w, member_push(w->m, grads, 1, to), TLC_ERR_PARAM);
        grads[t] = was;
    }
    if (s != IDLE) {
        REFUSED(w, member_push(w->m, grads, 1, to), TLC_ERR_ORDER);
        REFUSED(w, member_push(w->m, NULL, 1, to), TLC_ERR_ORDER);
    }
    require(same(to, untouched, sizeof to));
}

/* in_turn: a pull could succeed. */
static void refuse_pulls(watch *w, int in_turn)
{
    const fleet *f = w->f;
    const tlc_message none[RANKS] = {{NULL, 0}};
    void *out[TENSORS];

    memcpy(out, &f->out[w->index * TENSORS], sizeof out);
    REFUSED(w, member_pull(w->m, NULL, out), TLC_ERR_PARAM);
    REFUSED(w, member_pull(w->m, none, NULL), TLC_ERR_PARAM);
    for (size_t t = 0; t < TENSORS; t++) {
        void *was = out[t];
        out[t] = NULL;
        if (f->tensors[t].n)
            REFUSED(w, member_pull(w->m, none, out), TLC_ERR_PARAM);
        out[t] = was;
    }
    REFUSED(w, member_pull(w->m, none, out), in_turn ? TLC_ERR_CORRUPT : TLC_ERR_ORDER);
}

static void refuse_worker(watch *w, phase s)
{
    tlc_worker *worker = w->m.worker;
    const uint64_t now = tlc_worker_step(worker), taken[RANKS] = {now, now, now};

    REFUSED(w, tlc_worker_mask(worker, NULL), TLC_ERR_PARAM);
    REFUSED(w, tlc_worker_join(worker, 0, taken), TLC_ERR_PARAM);
    for (uint64_t step = 1; s != IDLE && step <= now; step++)
        REFUSED(w, tlc_worker_join(worker, step, taken), TLC_ERR_ORDER);
    refuse_pulls(w, 1);
}

static void refuse_rank(watch *w, phase s)
{
    tlc_allreduce *rank = w->m.rank;
    const uint64_t now = tlc_allreduce_step(rank);
    int gathered = is_gathered(w->f), answered = s == (gathered ? PUSHED : REDUCED);
    const tlc_message none[RANKS] = {{NULL, 0}};
    tlc_message m = {none, 77};

    REFUSED(w, tlc_allreduce_mask(rank, NULL), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_reduce(rank, NULL, &m), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_reduce(rank, none, NULL), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_average(rank, NULL), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_answer(rank, NULL, NULL), TLC_ERR_PARAM);
    for (size_t p = 0; p < tlc_allreduce_parts(rank); p++) {
        const float *was = w->f->half_part[w->index][p];
        w->f->half_part[w->index][p] = NULL;
        REFUSED(w, tlc_allreduce_answer(rank, (const float *const *)w->f->half_part[w->index], &m), TLC_ERR_PARAM);
        w->f->half_part[w->index][p] = was;
    }
    if (s != PUSHED || gathered) {
        REFUSED(w, tlc_allreduce_reduce(rank, none, &m), TLC_ERR_ORDER);
        REFUSED(w, tlc_allreduce_average(rank, none), TLC_ERR_ORDER);
    }
    if (s != AVERAGED)
        REFUSED(w, tlc_allreduce_answer(rank, NULL, &m), TLC_ERR_ORDER);
    if (s == IDLE)
        REFUSED(w, tlc_allreduce_cancel(rank), TLC_ERR_ORDER);
    REFUSED(w, tlc_allreduce_again(rank, now - 1, NULL), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_again(rank, 0, &m), TLC_ERR_PARAM);
    REFUSED(w, tlc_allreduce_again(rank, now + 1, &m), TLC_ERR_ORDER);
    if (!answered)
        REFUSED(w, tlc_allreduce_again(rank, now, &m), TLC_ERR_ORDER);
    require(m.data == none && m.len == 77);
    refuse_pulls(w, answered);
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

static void refuse_server(watch *w, phase s)
{
    tlc_server *server = w->m.server;
    const uint64_t now = tlc_server_step(server);
    const tlc_message none = {NULL, 0}, some = {"EEEE", 4};
    tlc_push_info info = {.struct_size = sizeof info.struct_size - 1};
    tlc_message m = {&info, 77};
    uint64_t step = 77;

    REFUSED(w, tlc_server_push(server, w->f->push[w->index], &info), TLC_ERR_PARAM);
    info.struct_size = sizeof info;
    REFUSED(w, tlc_server_push(server, none, &info), TLC_ERR_CORRUPT);
    REFUSED(w, tlc_server_push(server, some, &info), TLC_ERR_CORRUPT);
    REFUSED(w, tlc_server_push(server, some, NULL), TLC_ERR_CORRUPT);
    if (s != PUSHED)
        REFUSED(w, tlc_server_reduce(server), TLC_ERR_ORDER);
    REFUSED(w, tlc_server_answer(server, NULL, NULL), TLC_ERR_PARAM);
    for (size_t p = 0; p < tlc_server_parts(server); p++) {
        const float *was = w->f->half_part[w->index][p];
        w->f->half_part[w->index][p] = NULL;
        REFUSED(w, tlc_server_answer(server, (const float *const *)w->f->half_part[w->index], &m), TLC_ERR_PARAM);
        w->f->half_part[w->index][p] = was;
    }
    if (s != REDUCED)
        REFUSED(w, tlc_server_answer(server, NULL, &m), TLC_ERR_ORDER);
    REFUSED(w, tlc_server_again(server, now - 1, NULL), TLC_ERR_PARAM);
    REFUSED(w, tlc_server_again(server, 0, &m), TLC_ERR_PARAM);
    REFUSED(w, tlc_server_again(server, now, &m), TLC_ERR_ORDER);
    REFUSED(w, tlc_server_again(server, UINT64_MAX, &m), TLC_ERR_ORDER);
    REFUSED(w, tlc_server_taken(server, RANKS, &step), TLC_ERR_PARAM);
    REFUSED(w, tlc_server_taken(server, 0, NULL), TLC_ERR_PARAM);
    require(m.data == &info && m.len == 77 && step == 77 && !info.step);
}

/* ---- twins ------------------------------------------------------------------------------------------------------- */

static void disturb(fleet *f, member m, uint32_t index, phase s)
{
    watch w;

    at.n = s;
    watch_open(&w, f, m, index);
    refuse_queries(&w);
    refuse_codecs(&w);
    refuse_states(&w, s);
    refuse_factors(&w, s);
    if (m.server)
        refuse_server(&w, s);
    else
        refuse_pushes(&w, s);
    if (m.worker)
        refuse_worker(&w, s);
    if (m.rank)
        refuse_rank(&w, s);
    watch_close(&w);
}

static void disturb_all(fleet *f, phase s)
{
    for (uint32_t i = 0; i < f->workers; i++)
        disturb(f, f->worker[i], i, s);
}

/* Before each push reaches a server. */
static tlc_message disturb_arrival(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    if (f->cfg.servers && on == TO_OWNER)
        disturb(f, f->owner[to], to, from == f->order[0] ? IDLE : PUSHED);
    return message;
}

/* Between reduce, or average, and answer. */
static const float *const *disturb_reduced(fleet *f, uint32_t owner)
{
    disturb(f, f->owner[owner], owner, f->cfg.servers ? REDUCED : AVERAGED);
    return fleet_half(f, owner);
}

static void require_same_messages(const tlc_message *a, const tlc_message *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        require(blob_same(a[i], b[i]));
}

static void run_step(fleet *f, uint64_t step, int disturbed)
{
    fleet_gradients(f, step);
    if (disturbed)
        disturb_all(f, IDLE);
    fleet_push(f);
    if (disturbed)
        disturb_all(f, PUSHED);
    fleet_reduce(f);
    if (disturbed && f->owners && !f->cfg.servers)
        disturb_all(f, REDUCED);
    fleet_pull(f);
    require_pulled(f, TLC_OK);
}

TEST(e1_every_call)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet a, b;
        cfg.reserve = "sbc;raw:block=17";
        cfg.keep = 2;
        fleet_open(&a, &cfg, small_tensors, 1);
        fleet_open(&b, &cfg, small_tensors, 1);
        a.via = disturb_arrival;
        a.delta = disturb_reduced;
        b.delta = fleet_half;
        for (uint64_t step = 1; step <= (quick() ? 2 : 4); step++) {
            run_step(&a, step, 1);
            run_step(&b, step, 0);
            require_same_messages(a.push, b.push, (size_t)RANKS * a.lanes);
            require_same_messages(a.answer, b.answer, a.owners);
            for (size_t i = 0; i < (size_t)RANKS * TENSORS; i++)
                require(same(a.out[i], b.out[i], fleet_bytes(&a, i % TENSORS)));
        }
        for (uint32_t i = 0; i < RANKS; i++)
            require_same_states(a.worker[i], b.worker[i]);
        for (uint32_t i = 0; i < cfg.servers; i++)
            require_same_states(a.owner[i], b.owner[i]);
        fleet_close(&a);
        fleet_close(&b);
    }
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* Residuals of which one would overflow: none is scaled. */
TEST(e1_scale)
{
    FOR_EACH_KIND(kind)
        for (size_t t = 0; t < TENSORS; t++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            fleet f;
            watch w;
            if (!small_tensors[t].n)
                continue;
            fleet_open(&f, &cfg, small_tensors, 1);
            fleet_step(&f, 1);
            f.residual[t][small_tensors[t].n - 1] = -3e38f; /* of worker 0 */
            watch_open(&w, &f, f.worker[0], 0);
            REFUSED(&w, MEMBER(w.m, residual_scale, 1.2f), TLC_ERR_NONFINITE);
            REFUSED(&w, MEMBER(w.m, residual_scale, -1e30f), TLC_ERR_NONFINITE);
            require_status(MEMBER(w.m, residual_scale, 1.0f), TLC_OK);
            require_unchanged(&w);
            f.residual[t][0] = NAN;
            watch_again(&w);
            REFUSED(&w, MEMBER(w.m, residual_scale, 0.5f), TLC_ERR_NONFINITE);
            watch_close(&w);
            fleet_close(&f);
        }
}

/* No object at all. */
TEST(e1_null)
{
    tlc_message m[2] = {{NULL, 0}};
    size_t written = 0;
    uint8_t byte = 0;
    uint64_t step = 0;
    tlc_exchange_stats stats = {.struct_size = sizeof stats};
    tlc_outcome told = {.struct_size = sizeof told};
    tlc_part p = {.struct_size = sizeof p};
    const member none[3] = {{NULL, NULL, NULL}};

    for (size_t i = 0; i < 3; i++)
        member_destroy(none[i]);
#define NONE(function, ...)                                                                                            \
    require_status(tlc_worker_##function(NULL, __VA_ARGS__), TLC_ERR_PARAM);                                           \
    require_status(tlc_server_##function(NULL, __VA_ARGS__), TLC_ERR_PARAM);                                           \
    require_status(tlc_allreduce_##function(NULL, __VA_ARGS__), TLC_ERR_PARAM)
    NONE(stats, &stats);
    NONE(residual_scale, 1);
    NONE(state_save, &byte, 1, &written);
    NONE(state_load, m, 1);
#undef NONE
    require_status(tlc_worker_outcome(NULL, 0, &told), TLC_ERR_PARAM);
    require_status(tlc_server_outcome(NULL, &told), TLC_ERR_PARAM);
    require_status(tlc_allreduce_outcome(NULL, &told), TLC_ERR_PARAM);
    require_status(tlc_worker_set_codec(NULL, 0, "3lc"), TLC_ERR_PARAM);
    require_status(tlc_server_set_codec(NULL, 0, "3lc"), TLC_ERR_PARAM);
    require_status(tlc_allreduce_set_codec(NULL, 0, "3lc", "3lc"), TLC_ERR_PARAM);
    require_status(tlc_worker_push(NULL, NULL, 1, m), TLC_ERR_PARAM);
    require_status(tlc_allreduce_push(NULL, NULL, 1, m), TLC_ERR_PARAM);
    require_status(tlc_worker_pull(NULL, m, NULL), TLC_ERR_PARAM);
    require_status(tlc_allreduce_pull(NULL, m, NULL), TLC_ERR_PARAM);
    require_status(tlc_worker_mask(NULL, NULL), TLC_ERR_PARAM);
    require_status(tlc_allreduce_mask(NULL, NULL), TLC_ERR_PARAM);
    require_status(tlc_worker_join(NULL, 1, NULL), TLC_ERR_PARAM);
    require_status(tlc_server_push(NULL, m[0], NULL), TLC_ERR_PARAM);
    require_status(tlc_server_reduce(NULL), TLC_ERR_PARAM);
    require_status(tlc_server_answer(NULL, NULL, m), TLC_ERR_PARAM);
    require_status(tlc_server_again(NULL, 1, m), TLC_ERR_PARAM);
    require_status(tlc_server_taken(NULL, 0, &step), TLC_ERR_PARAM);
    require_status(tlc_server_part(NULL, 0, &p), TLC_ERR_PARAM);
    require_status(tlc_allreduce_part(NULL, 0, &p), TLC_ERR_PARAM);
    require_status(tlc_allreduce_reduce(NULL, m, m), TLC_ERR_PARAM);
    require_status(tlc_allreduce_average(NULL, m), TLC_ERR_PARAM);
    require_status(tlc_allreduce_answer(NULL, NULL, m), TLC_ERR_PARAM);
    require_status(tlc_allreduce_again(NULL, 1, m), TLC_ERR_PARAM);
    require_status(tlc_allreduce_cancel(NULL), TLC_ERR_PARAM);
    require(!tlc_server_ready(NULL) && !tlc_server_parts(NULL) && !tlc_allreduce_parts(NULL));
    require(!tlc_worker_step(NULL) && !tlc_server_step(NULL) && !tlc_allreduce_step(NULL));
    require(!tlc_worker_state_size(NULL) && !tlc_server_state_size(NULL) && !tlc_allreduce_state_size(NULL));
    require(!m[0].len && !written && !step && !p.n && !told.sentence[0]);
}
