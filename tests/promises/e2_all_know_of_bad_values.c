/* SPDX-License-Identifier: MIT
 *
 * E2, as in e2_all_know_who_failed.c: means and deltas that are not finite, and steps in which nobody is left.
 */
#include "../support/exchange_scene.h"
#include <math.h>

/* The owner of value 0 of a tensor. */
static uint32_t owner_of(const scene *s, size_t t)
{
    return s->l.owner[s->l.begin[t]];
}

/* The step fails at one owner: for all ranks, or for that server alone. */
static void failed_owner(scene *s, uint32_t owner, const want *told)
{
    fleet *f = &s->f;

    for (uint32_t w = 0; w < RANKS; w++) {
        at.i = w;
        require_status(f->pulled[w], TLC_ERR_STEP);
        require_outcome(f->worker[w], f->cfg.servers ? owner : 0, told);
    }
    for (size_t t = 0; t < TENSORS; t++)
        for (size_t k = 0; k < f->tensors[t].n; k++) {
            uint32_t o = s->l.owner[s->l.begin[t] + k];
            int written = f->cfg.servers && o != owner;
            require(s->l.ok[o] == (o != owner));
            require(all_bytes(f->out[t] + k * sizeof(float), sizeof(float), OUT_FILL) == !written);
        }
    require_steps(s, 1, 1);
}

/* told, of a mean or a delta */
static want at_owner(const fleet *f, uint32_t owner, size_t t, const char *what)
{
    want told = {TLC_ERR_STEP, TLC_ERR_NONFINITE, owner, t, ""};

    snprintf(told.sentence, sizeof told.sentence, "%s %u: the %s of tensor \"%s\" is not finite",
             f->cfg.servers ? "server" : "rank", owner, what, f->tensors[t].name);
    return told;
}

typedef struct bad_delta {
    uint32_t server;
    float value;
} bad_delta;

static const float *const *spoil(fleet *f, uint32_t server)
{
    const bad_delta *bad = f->arg;
    const float *const *delta = fleet_half(f, server);

    if (server == bad->server)
        f->half[server][0] = bad->value;
    return delta;
}

/* Sums overflow, though no gradient does. */
TEST(e2_mean)
{
    static const size_t tensors[] = {0, CONV, WIDE, OWN, GAIN};
    const float huge = 2e38f;

    FOR_EACH_KIND(kind)
        for (size_t i = 0; i < COUNT(tensors) && kind != GATHERED; i++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            scene s;
            cfg.sum = 1;
            scene_open(&s, &cfg, small_tensors);
            uint32_t owner = owner_of(&s, tensors[i]);
            bad_delta bad = {owner, NAN};
            if (i % 2) { /* what is made of a mean that is not finite does not matter any more */
                s.f.delta = spoil;
                s.f.arg = &bad;
            }
            fleet_gradients(&s.f, 3);
            for (uint32_t w = 0; w < 2; w++)
                memcpy(s.f.grad[w * TENSORS + tensors[i]], &huge, sizeof huge);
            ledger_take_step(&s.l);
            for (uint32_t o = 0; cfg.servers && o < cfg.servers; o++)
                require_status(s.f.reduced[o], o == owner ? TLC_ERR_STEP : TLC_OK);
            want told = at_owner(&s.f, owner, tensors[i], "mean");
            failed_owner(&s, owner, &told);
            ledger_check(&s.l);
            for (uint32_t w = 0; w < 2; w++) /* it came back; with it the next step would fail, too */
                grow(&s, w, tensors[i], 0);
            scene_close(&s);
        }
}

/* With gather a mean has no owner: all ranks see that it overflows, whatever its frames are made of. */
TEST(e2_gathered_mean)
{
    static const char *const texts[] = {"3lc",
                                        "raw",
                                        "topk:p=1",
                                        "topk:p=1,bits=2",
                                        "natural:bits=9",
                                        "natural:shift=117",
                                        "int8",
                                        "qsgd:bits=4",
                                        "stochastic-ternary+golomb",
                                        "random-sparse:p=1",
                                        "3lc:block=7"};
    const want told = {TLC_ERR_STEP, TLC_ERR_NONFINITE, TLC_NOBODY, CONV, "the mean of tensor \"conv\" is not finite"};
    const float huge = 2e38f;

    for (size_t i = 0; i < COUNT(texts); i++) {
        tlc_exchange_config cfg = fleet_config(GATHERED, RANKS, small_tensors);
        scene s;
        cfg.sum = 1;
        cfg.push = at.codec = texts[i];
        cfg.reserve = "3lc"; /* all tensors have residuals */
        scene_open(&s, &cfg, small_tensors);
        fleet_gradients(&s.f, 3);
        for (uint32_t w = 0; w < 2; w++)
            memcpy(s.f.grad[w * TENSORS + CONV], &huge, sizeof huge);
        ledger_take_step(&s.l);
        require_pulled(&s.f, TLC_ERR_STEP);
        each_outcome(&s, &told);
        require_steps(&s, 1, 1);
        ledger_check(&s.l);
        for (uint32_t w = 0; w < 2; w++) /* it came back; with it the next step would fail, too */
            grow(&s, w, CONV, 0);
        scene_close(&s);
    }
}

/* A codec with two scalars, of which only the first one is too large. */
TEST(e2_gathered_onebit)
{
    const want told = {TLC_ERR_STEP, TLC_ERR_NONFINITE, TLC_NOBODY, CONV, "the mean of tensor \"conv\" is not finite"};
    const float sides[2] = {2e38f, -1}; /* onebit sends the means of both */
    tlc_exchange_config cfg = fleet_config(GATHERED, RANKS, small_tensors);
    fleet f;

    cfg.sum = 1;
    cfg.push = "onebit";
    fleet_open(&f, &cfg, small_tensors, 1);
    fleet_gradients(&f, 3);
    for (uint32_t w = 0; w < 2; w++)
        for (size_t i = 0; i < small_tensors[CONV].n; i++)
            memcpy(f.grad[w * TENSORS + CONV] + i * sizeof(float), &sides[i % 2], sizeof(float));
    fleet_push(&f);
    fleet_reduce(&f);
    fleet_pull(&f);
    require_pulled(&f, TLC_ERR_STEP);
    for (uint32_t w = 0; w < RANKS; w++)
        require_outcome(f.worker[w], 0, &told);
    fleet_close(&f);
}

/* The residual of an owner and a mean are finite, but not their sum. */
TEST(e2_residual_and_mean)
{
    const float first[2] = {3e38f, 1.4e38f}, second[2] = {0, 2.9e38f};

    FOR_EACH_KIND(kind) {
        if (kind == GATHERED)
            continue;
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        scene s;
        cfg.push = "raw";
        cfg.pull = cfg.reserve = "3lc"; /* it sends the larger of the two values */
        scene_open(&s, &cfg, small_tensors);
        uint32_t owner = owner_of(&s, CONV);
        for (int turn = 0; turn < 2; turn++) {
            fleet_gradients(&s.f, 3);
            for (uint32_t w = 0; w < RANKS; w++)
                memcpy(s.f.grad[w * TENSORS + CONV], turn ? second : first, sizeof first);
            ledger_take_step(&s.l);
            ledger_check(&s.l);
            for (uint32_t w = 0; w < RANKS; w++)
                require_status(s.f.pulled[w], turn ? TLC_ERR_STEP : TLC_OK);
        }
        want told = at_owner(&s.f, owner, CONV, "mean");
        require_outcome(s.f.worker[2], cfg.servers ? owner : 0, &told);
        for (uint32_t w = 0; w < RANKS; w++) { /* it came back; with it the next step would fail, too */
            grow(&s, w, CONV, 0);
            s.l.worker[w].given[s.l.begin[CONV] + 1] -= (double)s.f.residual[w * TENSORS + CONV][1];
            s.f.residual[w * TENSORS + CONV][1] = 0;
        }
        scene_close(&s);
    }
}

TEST(e2_delta)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};

    FOR_EACH_KIND(kind)
        for (uint32_t server = 0; kind != GATHERED && server < (kind == ONE_SERVER ? 1 : RANKS); server++)
            for (size_t i = 0; i < COUNT(values); i++) {
                tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
                bad_delta bad = {server, values[i]};
                scene s;
                scene_open(&s, &cfg, small_tensors);
                s.f.delta = spoil;
                s.f.arg = &bad;
                fleet_gradients(&s.f, 3);
                ledger_take_step(&s.l);
                want told = at_owner(&s.f, server, member_part(s.f.owner[server], 0).tensor, "delta");
                failed_owner(&s, server, &told);
                require_status(s.f.reduced[server], TLC_OK);
                require(member_stats(s.f.owner[server]).failed == 1);
                scene_close(&s);
            }
}

/* Nobody is left for a mean. */
TEST(e2_all_gradients)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        scene s;
        scene_open(&s, &cfg, small_tensors);
        fleet_gradients(&s.f, 3);
        for (uint32_t w = 0; w < RANKS; w++)
            poison(&s.f, w, w ? WIDE : OWN, NAN);
        ledger_take_step(&s.l);
        require_pulled(&s.f, TLC_ERR_STEP);
        require_steps(&s, 1, 1);
        for (uint32_t i = 0; i < s.f.lanes && kind != GATHERED; i++) {
            require_status(s.f.reduced[i], cfg.servers ? TLC_ERR_STEP : TLC_OK);
            require(member_stats(s.f.owner[i]).failed == 1);
        }
        want told = {TLC_ERR_STEP, TLC_ERR_NONFINITE, 0, OWN, ""};
        snprintf(told.sentence, sizeof told.sentence, "%s 0: NaN or infinity in the gradient of tensor \"own\"%s",
                 role(&s.f), says(&s.f, 0, 0));
        each_outcome(&s, &told);
        scene_close(&s);
    }
}

static tlc_message lose(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    (void)f;
    (void)to;
    return on == TO_OWNER && from == 1 ? (tlc_message){NULL, 0} : message;
}

/* The frames of worker 1 come back, so that small tensors have residuals, too. */
static void come_back(scene *s)
{
    if (!is_gathered(&s->f)) {
        s->f.via = lose;
        ledger_take_step(&s->l);
        s->f.via = NULL;
    } else
        for (uint32_t w = 0; w < RANKS; w++) {
            (void)ledger_push(&s->l, w);
            require_status(tlc_allreduce_cancel(s->f.worker[w].rank), TLC_OK);
            ledger_settle(&s->l, w, 1);
        }
    require(s->f.residual[TENSORS + GAIN][0] > 0 || s->f.residual[TENSORS + GAIN][0] < 0);
}

/* Gradients that were not checked: the residual of the tensor with a NaN becomes 0, the others are what they were. */
TEST(e2_assume_finite)
{
    static const size_t tensors[] = {0, CONV, OWN, GAIN};

    FOR_EACH_KIND(kind)
        for (size_t i = 0; i < COUNT(tensors); i++) {
            tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
            want told = {cfg.servers ? TLC_OK : TLC_ERR_STEP, TLC_ERR_NONFINITE, 1, tensors[i], ""};
            scene s;
            cfg.assume_finite = 1;
            scene_open(&s, &cfg, small_tensors);
            fleet_gradients(&s.f, 3);
            come_back(&s);
            fleet_gradients(&s.f, 4);
            poison(&s.f, 1, tensors[i], NAN);
            /* the residual of a tensor with a frame of its own is lost */
            for (size_t k = 0; (tensors[i] == CONV || tensors[i] == OWN) && k < small_tensors[tensors[i]].n; k++)
                s.l.worker[1].given[s.l.begin[tensors[i]] + k] -= (double)s.f.residual[TENSORS + tensors[i]][k];
            ledger_take_step(&s.l);
            require_pulled(&s.f, told.status);
            snprintf(told.sentence, sizeof told.sentence, "%s 1: NaN or infinity in the gradient of tensor \"%s\"%s",
                     role(&s.f), small_tensors[tensors[i]].name, says(&s.f, 1, 0));
            each_outcome(&s, &told);
            scene_close(&s);
        }
}

/* Long parts are taken out of the residuals again, piece by piece. */
TEST(e2_long_parts)
{
    tlc_tensor tensors[TENSORS];
    const float huge = 2e38f;

    memcpy(tensors, small_tensors, sizeof tensors);
    tensors[WIDE].n = 5000;
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, RANKS, small_tensors);
        scene s;
        cfg.owners = kind == SHARDED;
        scene_open(&s, &cfg, tensors);
        fleet_gradients(&s.f, 3);
        grow(&s, 1, GAIN, huge); /* it is the last one in its message */
        memcpy(s.f.grad[TENSORS + GAIN], &huge, sizeof huge);
        ledger_take_step(&s.l);
        require_pulled(&s.f, cfg.servers ? TLC_OK : TLC_ERR_STEP);
        require(member_outcome(s.f.worker[0], 0).tensor == (kind == THREE_SERVERS ? TLC_ALL : GAIN) ||
                kind == THREE_SERVERS);
        ledger_check(&s.l);
        grow(&s, 1, GAIN, 0);
        scene_close(&s);
    }
}
