/* SPDX-License-Identifier: MIT
 *
 * E1: messages of others change nothing: of another sender, step, kind or fleet, or that do not agree with the rest.
 * The outcome says who is at fault, and the object takes the right ones afterwards.
 */
#include "../support/exchange_view.h"

enum { RANKS = MOST_SENDERS };

/* What a call must return, and what its outcome must tell. */
static void misdeliver(call *c, tlc_message message, tlc_status want, uint32_t rank, const char *sentence)
{
    REFUSED(&c->w, c->take(c, message), want);
    tlc_outcome o = member_outcome(c->w.m, (uint32_t)c->turn);
    if (strcmp(o.sentence, sentence) != 0)
        print_error("\"%s\" instead of \"%s\"\n", o.sentence, sentence);
    require(!strcmp(o.sentence, sentence) && o.status == want && o.cause == want && o.rank == rank);
    require(o.tensor == TLC_ALL && !o.taken && o.step == member_step(c->w.m));
}

/* A fleet that is like another one, and in its step 3. */
static void open_like(fleet *f, const fleet *other, size_t split_n)
{
    tlc_exchange_config cfg = other->cfg;

    cfg.split_n = split_n;
    fleet_open(f, &cfg, small_tensors, 1);
    for (uint64_t step = 1; step <= 2; step++)
        fleet_step(f, step);
    fleet_gradients(f, 33);
    fleet_push(f);
    fleet_reduce(f);
}

/* Pushes at a server in step 3. */
TEST(e1_wrong_pushes)
{
    tlc_exchange_config cfg = fleet_config(THREE_SERVERS, RANKS, small_tensors);
    call c = {.take = take_push};
    tlc_push_info info = {.struct_size = sizeof info};
    fleet f, stranger, other;

    fleet_open(&f, &cfg, small_tensors, 1);
    open_like(&stranger, &f, 48);
    open_like(&other, &f, cfg.split_n);
    for (uint64_t step = 1; step <= 2; step++)
        fleet_step(&f, step);
    fleet_gradients(&f, 3);
    fleet_push(&f);
    watch_open(&c.w, &f, f.owner[0], 0);
    misdeliver(&c, f.push[1], TLC_ERR_PARAM, 0, "the message of worker 0 is for number 1");
    misdeliver(&c, f.answer[0], TLC_ERR_PARAM, TLC_NOBODY,
               "the message of unknown worker is an answer of an exchange with servers, not a push of an exchange with "
               "servers");
    misdeliver(&c, (tlc_message){"TLCG\1", 6}, TLC_ERR_CORRUPT, TLC_NOBODY,
               "the message of unknown worker is not a message of the exchange, but a state of a node "
               "(threelc/gossip.h)");
    misdeliver(&c, (tlc_message){"E\2 of a later version, which is long enough", 40}, TLC_ERR_VERSION, TLC_NOBODY,
               "the message of unknown worker has version 2 of its format, this library reads 1");
    misdeliver(&c, stranger.push[3], TLC_ERR_PARAM, 1, "worker 1 has other tensors, codecs or settings");
    fleet_pull(&other); /* to step 4 */
    require_status(fleet_push_one(&other, 2), TLC_OK);
    misdeliver(&c, other.push[6], TLC_ERR_ORDER, 2, "worker 2 sent step 4, this is step 3");
    require_status(tlc_server_push(f.owner[0].server, f.push[0], &info), TLC_OK);
    require(!info.late && !info.repeated && info.worker == 0 && info.step == 3);
    watch_again(&c.w);
    member_move(other.worker[0], 3);
    require_status(fleet_push_one(&other, 0), TLC_OK);
    misdeliver(&c, other.push[0], TLC_ERR_ORDER, 0, "worker 0 sent two different messages for step 3");
    REFUSED(&c.w, tlc_server_push(f.owner[0].server, f.push[0], &info), TLC_OK); /* once more the same */
    require(info.repeated && !info.late);
    watch_close(&c.w);
    fleet_close(&f);
    fleet_close(&stranger);
    fleet_close(&other);
}

/* Answers at a worker or a rank in step 3, or pushes with gather. */
static void wrong_answers(fleet_kind kind)
{
    tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
    const char *who = cfg.servers ? "server" : "rank";
    tlc_message old, own;
    call c = {.take = take_answer, .turn = 1};
    fleet f, stranger;
    char text[200];

    fleet_open(&f, &cfg, small_tensors, 1);
    open_like(&stranger, &f, 48);
    fleet_step(&f, 1);
    fleet_step(&f, 2);
    old = blob_copy(kind == GATHERED ? f.push[RANKS] : f.answer[1]);
    fleet_gradients(&f, 3);
    fleet_push(&f);
    fleet_reduce(&f);
    for (uint32_t i = 0; i < f.lanes; i++)
        c.from[i] = kind == GATHERED ? f.push[i * RANKS] : f.answer[i];
    watch_open(&c.w, &f, f.worker[0], 0);
    snprintf(text, sizeof text, "the message of %s 1 was made by number 2", who);
    misdeliver(&c, c.from[2], TLC_ERR_PARAM, 1, text);
    snprintf(text, sizeof text, "no message came from %s 1", who);
    misdeliver(&c, (tlc_message){NULL, 0}, TLC_ERR_CORRUPT, 1, text);
    snprintf(text, sizeof text, "%s 1 sent step 2, this is step 3", who);
    misdeliver(&c, old, TLC_ERR_ORDER, 1, text);
    if (kind != GATHERED) {
        const char *what = cfg.servers ? "an exchange with servers" : "an all-reduce";
        snprintf(text, sizeof text, "the message of %s 1 is a push of %s, not an answer of %s", who, what, what);
        misdeliver(&c, f.push[f.lanes], TLC_ERR_PARAM, 1, text);
    }
    own = kind == GATHERED ? stranger.push[RANKS] : stranger.answer[1];
    snprintf(text, sizeof text, "%s 1 has other tensors, codecs or settings", who);
    misdeliver(&c, own, TLC_ERR_PARAM, 1, text);
    watch_close(&c.w);
    blob_free(&old);
    fleet_pull(&f);
    require_pulled(&f, TLC_OK);
    fleet_close(&f);
    fleet_close(&stranger);
}

TEST(e1_wrong_answers)
{
    wrong_answers(SHARDED);
    wrong_answers(GATHERED);
    wrong_answers(THREE_SERVERS);
}

/* An owner that says that others took part than the other owners say. The first who differs is named. */
TEST(e1_taken)
{
    tlc_exchange_config cfg = fleet_config(SHARDED, RANKS, small_tensors);
    fleet f;
    enum { PLACE = 14 }; /* of the bits, in a small rank's answer of a small step: format.md */

    fleet_open(&f, &cfg, small_tensors, 1);
    fleet_gradients(&f, 1);
    fleet_push(&f);
    fleet_reduce(&f);
    for (uint32_t liar = 0; liar < RANKS; liar++) {
        call c = {.take = take_answer, .turn = liar};
        tlc_message altered = blob_copy(f.answer[liar]);
        uint8_t *p = (uint8_t *)(uintptr_t)altered.data;
        uint32_t named = liar ? liar : 1;
        char text[200];
        memcpy(c.from, f.answer, sizeof c.from);
        require(p[PLACE] == 7);
        p[PLACE] = 5;
        blob_seal(p, altered.len);
        snprintf(text, sizeof text, "rank %u does not agree with the others who took part", named);
        watch_open(&c.w, &f, f.worker[1], 1);
        misdeliver(&c, altered, TLC_ERR_CORRUPT, named, text);
        watch_close(&c.w);
        blob_free(&altered);
    }
    fleet_pull(&f);
    require_pulled(&f, TLC_OK);
    fleet_close(&f);
}
