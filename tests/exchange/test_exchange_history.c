/* SPDX-License-Identifier: MIT
 *
 * Histories: all who take part in a run have the same, and states of two runs are not mixed.
 */
#include "../support/exchange_run.h"
#include <math.h>

enum { RANKS = 3, STEPS = 3, HISTORY_AT = 20 /* where states have it, as numbers below 128 have one byte */ };

static fleet open_fleet(fleet_kind kind, uint32_t workers)
{
    const tlc_exchange_config cfg = fleet_config(kind, workers, small_tensors);
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 0);
    return f;
}

/* A run whose gradients come from `seed`. */
static fleet run_from(fleet_kind kind, uint64_t seed)
{
    fleet f = open_fleet(kind, RANKS);

    for (uint64_t s = 0; s < STEPS; s++) {
        fleet_step(&f, seed + s);
        require_pulled(&f, TLC_OK);
    }
    return f;
}

static void require_refused(member m, const tlc_message *states, const char *sentence)
{
    const tlc_message before = member_save(m);

    require_status(MEMBER(m, state_load, states, RANKS), TLC_ERR_PARAM);
    require_state(m, before);
    const tlc_outcome o = member_outcome(m, 0);
    assert_string_equal(o.sentence, sentence);
    blob_free((tlc_message *)(uintptr_t)&before);
}

/* The state of one rank is of another run, in the same step, with the same configuration. */
TEST(states_of_two_runs)
{
    FOR_EACH_KIND(kind) {
        fleet a = run_from(kind, 1), b = run_from(kind, 11), more = open_fleet(kind, RANKS + 2);
        const char *const word = kind < ONE_SERVER ? "rank" : "worker";
        tlc_message saved[RANKS];
        char sentence[200];
        for (size_t stranger = 0; stranger < RANKS; stranger++) {
            for (uint32_t i = 0; i < RANKS; i++)
                saved[i] = member_save(i == stranger ? b.worker[i] : a.worker[i]);
            snprintf(sentence, sizeof sentence,
                     "%s 0: states 0 and %zu are not of one run: before step 4 %ss 0 and %zu got different messages",
                     word, stranger ? stranger : 1, word, stranger ? stranger : 1);
            require_refused(more.worker[0], saved, sentence);
            for (uint32_t i = 0; i < RANKS; i++)
                blob_free(&saved[i]);
        }
        for (uint32_t i = 0; i < RANKS; i++)
            saved[i] = member_save(a.worker[i]);
        require_status(MEMBER(more.worker[0], state_load, saved, RANKS), TLC_OK);
        for (uint32_t i = 0; i < RANKS; i++)
            blob_free(&saved[i]);
        fleet_close(&a);
        fleet_close(&b);
        fleet_close(&more);
    }
}

/* All workers have the history of a run, which is that of the servers. */
static uint64_t history_of(const fleet *f)
{
    const uint64_t history = member_history(f->worker[0]);
    uint64_t sum = 0;

    for (uint32_t i = 1; i < f->workers; i++)
        require(member_history(f->worker[i]) == history);
    for (uint32_t i = 0; i < f->cfg.servers; i++)
        sum += member_history(f->owner[i]);
    require(!f->cfg.servers || sum == history);
    return history;
}

/* A step that changes nothing: no gradient is finite. */
static void failing_step(fleet *f)
{
    fleet_gradients(f, 5);
    for (uint32_t w = 0; w < f->workers; w++)
        memcpy(f->grad[w * TENSORS], &(float){NAN}, sizeof(float));
    fleet_push(f);
    fleet_reduce(f);
    fleet_pull(f);
    require_pulled(f, TLC_ERR_STEP);
}

TEST(all_have_the_same)
{
    FOR_EACH_KIND(kind) {
        fleet a = open_fleet(kind, RANKS), b = open_fleet(kind, RANKS);
        uint64_t before = 0;
        require(history_of(&a) == 0);
        for (uint64_t s = 1; s <= STEPS; s++) {
            fleet_step(&a, s);
            fleet_step(&b, s);
            const uint64_t history = history_of(&a);
            require(history && history != before && history == history_of(&b));
            before = history;
        }
        failing_step(&a);
        require(history_of(&a) == before);
        fleet_step(&a, 9);
        fleet_step(&b, 9);
        require(history_of(&a) != before && history_of(&a) != history_of(&b));
        fleet_close(&a);
        fleet_close(&b);
    }
}

/* Each object loads its own state: those who got one of another run are told apart. */
TEST(own_states)
{
    FOR_EACH_KIND(kind) {
        fleet a = run_from(kind, 1), b = run_from(kind, 11), c = open_fleet(kind, RANKS);
        for (uint32_t i = 0; i < RANKS; i++) {
            tlc_message saved = member_save(i ? a.worker[i] : b.worker[i]);
            require_status(member_load(c.worker[i], saved), TLC_OK);
            require_state(c.worker[i], saved);
            blob_free(&saved);
        }
        require(member_history(c.worker[0]) == history_of(&b));
        require(member_history(c.worker[1]) == history_of(&a) && member_history(c.worker[2]) == history_of(&a));
        for (uint32_t i = 0; i < c.cfg.servers; i++) {
            tlc_message saved = member_save(b.owner[i]);
            require_status(member_load(c.owner[i], saved), TLC_OK);
            require(member_history(c.owner[i]) == member_history(b.owner[i]));
            blob_free(&saved);
        }
        fleet_close(&a);
        fleet_close(&b);
        fleet_close(&c);
    }
}

/* The bytes of older releases: version 1, without a history. */
static tlc_message older(tlc_message state)
{
    uint8_t *p = (uint8_t *)(uintptr_t)state.data;

    p[4] = 1;
    memmove(p + HISTORY_AT, p + HISTORY_AT + 8, state.len - HISTORY_AT - 8);
    blob_seal(p, state.len - 8);
    return (tlc_message){p, state.len - 8};
}

/* They load, alone and beside others; nothing is compared, and after a step the history is there. */
TEST(older_states)
{
    FOR_EACH_KIND(kind) {
        fleet a = run_from(kind, 1), b = open_fleet(kind, RANKS), more = open_fleet(kind, RANKS + 2);
        tlc_message saved[RANKS];
        for (uint32_t i = 0; i < RANKS; i++)
            saved[i] = older(member_save(a.worker[i]));
        for (uint32_t i = 0; i < RANKS; i++)
            require_status(member_load(b.worker[i], saved[i]), TLC_OK);
        for (uint32_t i = 0; i < b.cfg.servers; i++) {
            tlc_message server = older(member_save(a.owner[i]));
            require_status(member_load(b.owner[i], server), TLC_OK);
            blob_free(&server);
        }
        require(history_of(&b) == 0);
        fleet_step(&a, 9);
        fleet_step(&b, 9);
        require(history_of(&b) && history_of(&b) == history_of(&a));
        blob_free(&saved[0]);
        fleet c = run_from(kind, 11);
        saved[0] = member_save(c.worker[0]);
        require_status(MEMBER(more.worker[0], state_load, saved, RANKS), TLC_OK);
        require(member_history(more.worker[0]) == history_of(&c));
        for (uint32_t i = 0; i < RANKS; i++)
            blob_free(&saved[i]);
        fleet_close(&a);
        fleet_close(&b);
        fleet_close(&c);
        fleet_close(&more);
    }
}

static const float *const *spoil_one(fleet *f, uint32_t owner)
{
    const float *const *delta = fleet_half(f, owner);

    if (owner == 1)
        f->half[owner][0] = NAN;
    return delta;
}

/* A step fails on one of three servers, which stays at what it knew. Workers know no step that is that of all. */
TEST(one_server_fails)
{
    fleet a = run_from(THREE_SERVERS, 1);
    const uint64_t before[] = {member_history(a.owner[0]), member_history(a.owner[1])};
    a.delta = spoil_one;
    fleet_step(&a, 5);
    for (uint32_t i = 0; i < a.workers; i++)
        require(a.pulled[i] == TLC_ERR_STEP && !member_history(a.worker[i]));
    require(member_history(a.owner[0]) != before[0] && member_history(a.owner[1]) == before[1]);
    a.delta = NULL;
    fleet_step(&a, 6);
    require(history_of(&a) != 0);
    fleet_close(&a);
}

/* A worker that joined does not know what came before, and learns it from the next answers. */
TEST(a_worker_joins)
{
    for (fleet_kind kind = ONE_SERVER; kind <= THREE_SERVERS; kind++) {
        fleet a = run_from(kind, 1);
        require_status(tlc_worker_join(a.worker[1].worker, STEPS + 1, NULL), TLC_OK);
        require(!member_history(a.worker[1]) && member_history(a.worker[0]));
        fleet_step(&a, 9);
        require(history_of(&a) != 0);
        fleet_close(&a);
    }
}
