/* SPDX-License-Identifier: MIT
 *
 * What exchange.h says of failures, besides E1 to E7: answers that are fetched again, codecs without a residual,
 * residuals of the caller, pushes that come late or twice, rounds with nobody, workers that join.
 */
#include "../support/exchange_ledger.h"
#include <math.h>

enum { RANKS = 3, BIAS = 0, CONV = 1, WIDE = 3, GAIN = 6 };

/* A push that does not arrive. */
static uint32_t lost_from, lost_to;

static tlc_message lose(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    (void)f;
    return on == TO_OWNER && from == lost_from && to == lost_to ? (tlc_message){NULL, 0} : message;
}

/* ---- answers of steps before ------------------------------------------------------------------------------------- */

static tlc_message fetch(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    const uint64_t step = member_step(f->worker[to]);
    tlc_message kept;

    if (on == TO_OWNER)
        return message;
    require_status(f->cfg.servers ? tlc_server_again(f->owner[from].server, step, &kept)
                                  : tlc_allreduce_again(f->worker[from].rank, step, &kept),
                   TLC_OK);
    return kept;
}

/* Answers are kept for the last `keep` steps. A worker that fell behind applies them in order. */
TEST(again_of_servers)
{
    enum { KEEP = 2, STEPS = 5 };
    tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
    tlc_message copies[STEPS + 1], kept;
    uint8_t *outs[STEPS + 1];
    fleet f;

    cfg.keep = KEEP;
    fleet_open(&f, &cfg, small_tensors, 1);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const tlc_server *server = f.owner[0].server;
        fleet_gradients(&f, step);
        for (uint32_t w = 0; w < RANKS; w++)
            require_status(fleet_push_one(&f, w), w == 2 && step == STEPS ? TLC_ERR_ORDER : TLC_OK);
        lost_from = step == STEPS ? 2 : TLC_NOBODY; /* it pushed in the step before */
        lost_to = 0;
        f.via = lose;
        require_status(tlc_server_again(server, step, &kept), TLC_ERR_ORDER);
        fleet_reduce(&f);
        copies[step] = blob_copy(f.answer[0]);
        for (uint64_t s = 1; s <= step + 1; s++) {
            require_status(tlc_server_again(server, s, &kept), s > step          ? TLC_ERR_ORDER
                                                               : s + KEEP > step ? TLC_OK
                                                                                 : TLC_ERR_PARAM);
            require(s > step || s + KEEP <= step || blob_same(kept, copies[s]));
        }
        for (uint32_t w = 0; w < RANKS; w++)
            if (w < 2 || step < STEPS - 1)
                require_status(fleet_pull_one(&f, w), TLC_OK);
        outs[step] = bytes(fleet_bytes(&f, WIDE));
        memcpy(outs[step], f.out[WIDE], fleet_bytes(&f, WIDE));
    }
    f.via = fetch;
    for (uint64_t step = STEPS - 1; step <= STEPS; step++) {
        require_status(fleet_pull_one(&f, 2), TLC_OK);
        require(same(f.out[2 * TENSORS + WIDE], outs[step], fleet_bytes(&f, WIDE)));
    }
    require(member_step(f.worker[2]) == STEPS + 1);
    for (uint64_t step = 1; step <= STEPS; step++) {
        blob_free(&copies[step]);
        free(outs[step]);
    }
    fleet_close(&f);
}

/* A rank fetches what others sent, when they are in the next step already. */
TEST(again_of_ranks)
{
    for (fleet_kind kind = SHARDED; kind <= GATHERED; kind++) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        tlc_message kept;
        fleet f;
        cfg.keep = 1;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_step(&f, 1);
        fleet_gradients(&f, 2);
        fleet_push(&f);
        require_status(tlc_allreduce_again(f.worker[0].rank, 2, &kept), kind == GATHERED ? TLC_OK : TLC_ERR_ORDER);
        fleet_reduce(&f);
        fleet_wipe(&f);
        for (uint32_t w = 1; w < RANKS; w++)
            require_status(fleet_pull_one(&f, w), TLC_OK);
        f.via = fetch;
        for (uint32_t w = 1; w < RANKS; w++)
            require_status(fleet_push_one(&f, w), TLC_OK);
        require_status(fleet_pull_one(&f, 0), TLC_OK);
        require_pulled(&f, TLC_OK);
        require_status(tlc_allreduce_again(f.worker[0].rank, 1, &kept), kind == GATHERED ? TLC_OK : TLC_ERR_PARAM);
        fleet_close(&f);
    }
}

/* ---- codecs that keep no residual -------------------------------------------------------------------------------- */

/* Values of an owner's parts that have the codec of the configuration. */
static uint64_t common_values(const fleet *f, uint32_t owner)
{
    uint64_t values = 0;

    for (size_t i = 0; i < member_parts(f->owner[owner]); i++) {
        tlc_part part = member_part(f->owner[owner], i);
        require((part.residual == NULL) == (part.tensor == CONV || part.tensor == WIDE));
        values += part.residual ? 0 : part.n;
    }
    return values;
}

static uint64_t dropped(const fleet *f, uint32_t w)
{
    return member_stats(f->worker[w]).dropped;
}

TEST(no_residual)
{
    const uint64_t all = small_tensors[CONV].n + small_tensors[WIDE].n;

    for (fleet_kind kind = SHARDED; kind <= THREE_SERVERS; kind++) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        if (kind == GATHERED)
            continue;
        cfg.push = "natural";
        fleet_open(&f, &cfg, small_tensors, 0);
        fleet_step(&f, 1);
        lost_from = 1;
        lost_to = 0;
        f.via = lose;
        fleet_step(&f, 2);
        uint64_t missed = common_values(&f, 0);
        for (uint32_t w = 0; w < RANKS; w++)
            if (cfg.servers) /* that worker alone was not taken */
                require(dropped(&f, w) == (w == 1 ? missed : 0));
            else /* owner 0 did not reduce; what the others reduced cannot go back to them */
                require(dropped(&f, w) == missed + (w ? common_values(&f, w) : 0));
        f.via = NULL;
        const uint64_t before = dropped(&f, 1);
        fleet_push(&f);
        if (cfg.servers) { /* it listens, and has nowhere to put the gradient */
            require_status(tlc_worker_join(f.worker[1].worker, member_step(f.worker[1]) + 1, NULL), TLC_OK);
            require(dropped(&f, 1) == before);
            require_status(fleet_push_one(&f, 1), TLC_OK);
        } else
            require_status(tlc_allreduce_cancel(f.worker[1].rank), TLC_OK);
        require(dropped(&f, 1) == before + all);
        fleet_close(&f);
    }
}

/* ---- residuals of the caller ------------------------------------------------------------------------------------- */

/* The caller changes them between push and pull. What was not taken is added to what they are then. Those of small
 * tensors, whose frame has several, are no exception; raw left 0 in them. */
TEST(changed_residuals)
{
    tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
    static const size_t list[] = {WIDE, BIAS, GAIN};
    fleet f;

    fleet_open(&f, &cfg, small_tensors, 1);
    fleet_gradients(&f, 1);
    fleet_push(&f);
    lost_from = 1;
    lost_to = 0;
    f.via = lose;
    fleet_reduce(&f);
    for (size_t k = 0; k < COUNT(list); k++)
        for (size_t i = 0; i < small_tensors[list[k]].n; i++)
            f.residual[TENSORS + list[k]][i] += 8;
    fleet_pull(&f);
    require_pulled(&f, TLC_OK);
    for (size_t k = 0; k < COUNT(list); k++)
        for (size_t i = 0; i < small_tensors[list[k]].n; i++) {
            const float want = 8 + fleet_grad(&f, 1, list[k], i), got = f.residual[TENSORS + list[k]][i];
            require(list[k] == WIDE ? fabsf(got - want) < 1e-5f : float_bits(got) == float_bits(want));
        }
    fleet_close(&f);
}

/* ---- pushes that come late, or twice, or not at all -------------------------------------------------------------- */

TEST(pushes_of_a_step)
{
    tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
    tlc_push_info info = {.struct_size = sizeof info};
    const float bad = NAN;
    tlc_server *server;
    fleet f;

    cfg.backup = 1;
    fleet_open(&f, &cfg, small_tensors, 1);
    server = f.owner[0].server;
    fleet_gradients(&f, 1);
    memcpy(f.grad[CONV], &bad, sizeof bad);
    fleet_push(&f);
    require(!tlc_server_ready(server));
    for (int turn = 0; turn < 2; turn++) { /* one that says that its gradient was dropped came, too */
        require_status(tlc_server_push(server, f.push[0], &info), TLC_OK);
        require(info.worker == 0 && info.step == 1 && info.repeated == turn && !info.late);
        require(!tlc_server_ready(server));
    }
    require_status(tlc_server_push(server, f.push[1], &info), TLC_OK);
    require(tlc_server_ready(server));
    require_status(tlc_server_reduce(server), TLC_OK);
    require(!tlc_server_ready(server));
    for (int turn = 0; turn < 2; turn++) { /* before and after the answer */
        require_status(tlc_server_push(server, f.push[2], &info), TLC_OK);
        require(info.worker == 2 && info.step == 1 && info.late && !info.repeated);
        require(member_stats(f.owner[0]).late == (uint64_t)turn + 1);
        if (!turn)
            require_status(tlc_server_answer(server, NULL, &f.answer[0]), TLC_OK);
    }
    require(member_stats(f.owner[0]).received == f.push[0].len + f.push[1].len);
    require(member_stats(f.owner[0]).sent == RANKS * f.answer[0].len);
    fleet_wipe(&f);
    for (uint32_t w = 0; w < RANKS; w++) {
        uint64_t taken = 77;
        require_status(fleet_pull_one(&f, w), TLC_OK);
        require(member_stats(f.worker[w]).late == (w == 2));
        require_status(tlc_server_taken(server, w, &taken), TLC_OK);
        require(taken == (w == 1));
    }
    fleet_close(&f);
}

/* If nobody is in the round the mean is 0, and answers send what was left before. */
TEST(empty_round)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        fleet f;
        ledger l;
        fleet_open(&f, &cfg, small_tensors, 1);
        ledger_open(&l, &f);
        ledger_step(&l, 1);
        for (uint32_t w = 0; w < RANKS; w++)
            f.absent[w] = 1;
        ledger_step(&l, 2);
        require_pulled(&f, TLC_OK);
        ledger_check(&l);
        for (uint32_t o = 0; o < f.owners; o++)
            for (size_t i = 0; i < member_parts(f.owner[o]); i++) {
                tlc_part part = member_part(f.owner[o], i);
                require(all_bytes(part.mean, part.n * sizeof(float), 0));
            }
        require(kind != GATHERED || all_bytes(f.out[WIDE], fleet_bytes(&f, WIDE), 0));
        ledger_close(&l);
        fleet_close(&f);
    }
}

/* ---- workers that join ------------------------------------------------------------------------------------------- */

/* What becomes of a push without an answer, and of the gradient of the step in which the worker listens. */
TEST(join)
{
    enum { TAKEN, NOT_TAKEN, UNKNOWN };
    tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
    const size_t n = small_tensors[WIDE].n;
    float *r = floats(n);

    for (int what = TAKEN; what <= UNKNOWN; what++) {
        const uint64_t taken = what == TAKEN ? 2 : 1;
        tlc_outcome o;
        fleet f;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_step(&f, 1);
        const float *now = f.residual[TENSORS + WIDE];
        fleet_gradients(&f, 2);
        for (size_t i = 0; i < n; i++)
            r[i] = now[i] + fleet_grad(&f, 1, WIDE, i);
        fleet_push(&f);
        if (what != NOT_TAKEN)
            memcpy(r, now, n * sizeof *r);
        require_status(tlc_worker_join(f.worker[1].worker, 4, what == UNKNOWN ? NULL : &taken), TLC_OK);
        require(member_step(f.worker[1]) == 4 && member_stats(f.worker[1]).late == (what == NOT_TAKEN));
        for (size_t i = 0; i < n; i++)
            require(fabsf(now[i] - r[i]) <= (what == NOT_TAKEN ? 1e-6f : 0));
        memcpy(r, now, n * sizeof *r);
        member_move(f.owner[0], 4);
        require_status(fleet_push_one(&f, 1), TLC_OK); /* it listens */
        for (size_t i = 0; i < n; i++)
            require(float_bits(now[i]) == float_bits(r[i] + fleet_grad(&f, 1, WIDE, i)));
        require_status(tlc_server_push(f.owner[0].server, f.push[1], NULL), TLC_OK);
        require_status(tlc_server_reduce(f.owner[0].server), TLC_OK);
        require_status(tlc_server_answer(f.owner[0].server, NULL, &f.answer[0]), TLC_OK);
        o = member_outcome(f.owner[0], 0);
        require(o.taken && *o.taken == 0);
        require_status(fleet_pull_one(&f, 1), TLC_OK);
        require(member_stats(f.worker[1]).late == (what == NOT_TAKEN));
        require_status(fleet_push_one(&f, 1), TLC_OK); /* now it counts */
        require_status(tlc_server_push(f.owner[0].server, f.push[1], NULL), TLC_OK);
        require_status(tlc_server_reduce(f.owner[0].server), TLC_OK);
        o = member_outcome(f.owner[0], 0);
        require(o.taken && *o.taken == 2);
        fleet_close(&f);
    }
    free(r);
}

/* A worker that listens is given what it cannot keep. Other tensors keep theirs. */
TEST(listening)
{
    for (int assume_finite = 0; assume_finite < 2; assume_finite++) {
        tlc_exchange_config cfg = fleet_config(ONE_SERVER, RANKS, small_tensors);
        const float value = assume_finite ? NAN : 3e38f;
        float *conv, wide;
        fleet f;
        cfg.assume_finite = assume_finite;
        fleet_open(&f, &cfg, small_tensors, 1);
        fleet_step(&f, 1);
        conv = f.residual[TENSORS + CONV];
        require_status(tlc_worker_join(f.worker[1].worker, 3, NULL), TLC_OK);
        fleet_gradients(&f, 3);
        memcpy(f.grad[TENSORS + CONV], &value, sizeof value);
        conv[0] = 3e38f;
        wide = f.residual[TENSORS + WIDE][0] + fleet_grad(&f, 1, WIDE, 0);
        require_status(fleet_push_one(&f, 1), TLC_OK);
        tlc_outcome o = member_outcome(f.worker[1], 0);
        require(o.status == TLC_OK && o.cause == TLC_ERR_NONFINITE && o.rank == 1 && o.tensor == CONV);
        require(!strcmp(o.sentence, assume_finite ? "worker 1: NaN or infinity in the gradient of tensor \"conv\""
                                                  : "worker 1: residual + gradient of tensor \"conv\" is not finite"));
        require(dropped(&f, 1) == small_tensors[CONV].n);
        require(float_bits(conv[0]) == float_bits(assume_finite ? 0 : 3e38f));
        require(float_bits(f.residual[TENSORS + WIDE][0]) == float_bits(wide));
        fleet_close(&f);
    }
}
