/* SPDX-License-Identifier: MIT
 *
 * An all-reduce with optimizers at its owners: tlc_allreduce_average and tlc_allreduce_answer. E1 to E7 are tested with
 * deltas where they are tested for servers.
 */
#include "../support/exchange_run.h"
#include <math.h>

enum { RANKS = 3, CONV = 1 };

static void open_fleet(fleet *f, const char *codec)
{
    tlc_exchange_config cfg = fleet_config(SHARDED, RANKS, small_tensors);

    cfg.push = at.codec = codec;
    fleet_open(f, &cfg, small_tensors, 0);
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

static const float *const *no_delta(fleet *f, uint32_t owner)
{
    (void)f;
    (void)owner;
    return NULL;
}

/* Also in a step that fails. */
TEST(means_are_those_of_reduce)
{
    static const char *const texts[] = {"3lc:s=1.75", "natural", "raw"};
    const float bad = NAN;

    for (size_t c = 0; c < COUNT(texts); c++) {
        fleet one, two;
        open_fleet(&one, texts[c]);
        open_fleet(&two, texts[c]);
        two.delta = no_delta;
        for (uint64_t step = 1; step <= 4; step++) {
            fleet *const fleets[] = {&one, &two};
            for (size_t i = 0; i < 2; i++) {
                fleet_gradients(fleets[i], step);
                if (step == 3)
                    memcpy(fleets[i]->grad[TENSORS + CONV], &bad, sizeof bad);
                fleet_push(fleets[i]);
                fleet_reduce(fleets[i]);
                fleet_pull(fleets[i]);
            }
            for (uint32_t i = 0; i < RANKS; i++) {
                const tlc_exchange_stats a = member_stats(one.worker[i]), b = member_stats(two.worker[i]);
                require(two.reduced[i] == (step == 3 ? TLC_ERR_STEP : TLC_OK) && one.pulled[i] == two.pulled[i]);
                require(blob_same(one.answer[i], two.answer[i]));
                require(same(&a, &b, sizeof a));
            }
        }
        fleet_close(&one);
        fleet_close(&two);
    }
}

/* ---- a model ----------------------------------------------------------------------------------------------------- */

/* One tensor in parts. Owners have an optimizer and weights of their parts; each rank has a replica of the model. */
enum { N = 90, STEPS = 240 };
static const char *const words[] = {"ends",
                                    "a gradient is not finite",
                                    "a delta is not finite",
                                    "a push is lost",
                                    "cancelled between average and answer",
                                    "cancelled after the answers"};
typedef enum ending { ENDS, BAD_GRADIENT, BAD_DELTA, LOST_PUSH, CANCELLED_EARLY, CANCELLED_LATE, ENDINGS } ending;

typedef struct owner {
    tlc_allreduce *rank;
    tlc_part part;
    float momentum[N], weights[N], before[2][N], delta[N];
    int stepped;
} owner;

typedef struct world {
    owner owner[RANKS];
    float target[RANKS][N], replica[N];
    tlc_message push[RANKS][RANKS], answer[RANKS];
} world;

static void open_world(world *w, const char *codec)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = N, .only = TLC_NOBODY};
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = RANKS;
    cfg.push = cfg.pull = at.codec = codec;
    cfg.min_n = cfg.split_n = 1;
    for (uint32_t r = 0; r < RANKS; r++) {
        owner *o = &w->owner[r];
        require_status(tlc_allreduce_create(&o->rank, &cfg, r, &tensor, 1), TLC_OK);
        require(tlc_allreduce_parts(o->rank) == 1);
        o->part.struct_size = sizeof o->part;
        require_status(tlc_allreduce_part(o->rank, 0, &o->part), TLC_OK);
        for (size_t i = 0; i < N; i++)
            w->target[r][i] = (float)((i * 37 + r * 11) % 64) / 32;
    }
}

static void push_all(world *w, ending e)
{
    float gradient[N];
    const void *grads[] = {gradient};

    for (uint32_t r = 0; r < RANKS; r++) {
        for (size_t i = 0; i < N; i++)
            gradient[i] = w->replica[i] - w->target[r][i];
        if (e == BAD_GRADIENT && r == 1)
            gradient[7] = NAN;
        require_status(tlc_allreduce_push(w->owner[r].rank, grads, 1, w->push[r]), TLC_OK);
    }
}

/* An owner's step: weights and momentum change, and what changes is the delta. */
static void step_optimizer(owner *o)
{
    memcpy(o->before[0], o->momentum, sizeof o->momentum);
    memcpy(o->before[1], o->weights, sizeof o->weights);
    for (size_t i = 0; i < o->part.n; i++) {
        o->momentum[i] = 0.5f * o->momentum[i] + o->part.mean[i];
        o->delta[i] = -0.0625f * o->momentum[i];
        o->weights[i] += o->delta[i];
    }
    o->stepped = 1;
}

/* Once, if it has stepped. */
static void take_back(owner *o)
{
    if (!o->stepped)
        return;
    memcpy(o->momentum, o->before[0], sizeof o->momentum);
    memcpy(o->weights, o->before[1], sizeof o->weights);
    o->stepped = 0;
}

static void average(world *w, uint32_t r, ending e)
{
    owner *o = &w->owner[r];
    tlc_message from[RANKS];

    for (uint32_t i = 0; i < RANKS; i++)
        from[i] = e == LOST_PUSH && r == 2 && i == 0 ? (tlc_message){NULL, 0} : w->push[i][r];
    const int fails = e == BAD_GRADIENT || (e == LOST_PUSH && r == 2);
    o->stepped = 0;
    require_status(tlc_allreduce_average(o->rank, from), fails ? TLC_ERR_STEP : TLC_OK);
    if (!fails)
        step_optimizer(o);
}

static void answer(world *w, uint32_t r, ending e)
{
    owner *o = &w->owner[r];
    const float *delta[] = {o->delta};
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    if (e == BAD_DELTA && r == 0)
        o->delta[3] = INFINITY;
    require_status(tlc_allreduce_answer(o->rank, delta, &w->answer[r]), TLC_OK);
    require_status(tlc_allreduce_outcome(o->rank, &outcome), TLC_OK);
    if (outcome.cause) /* it sent nothing */
        take_back(o);
}

static void pull_all(world *w, ending e)
{
    float out[RANKS][N];

    for (uint32_t r = 0; r < RANKS; r++) {
        void *at_out[] = {out[r]};
        require_status(tlc_allreduce_pull(w->owner[r].rank, w->answer, at_out), e == ENDS ? TLC_OK : TLC_ERR_STEP);
        require(e != ENDS || same(out[r], out[0], sizeof out[0]));
        if (e != ENDS && !w->owner[r].part.residual) /* the delta is lost */
            take_back(&w->owner[r]);
    }
    for (size_t i = 0; e == ENDS && i < N; i++)
        w->replica[i] += out[0][i];
}

static void cancel_all(world *w)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        require_status(tlc_allreduce_cancel(w->owner[r].rank), TLC_OK);
        take_back(&w->owner[r]);
    }
}

static void step(world *w, ending e)
{
    push_all(w, e);
    for (uint32_t r = 0; r < RANKS; r++)
        average(w, r, e);
    for (uint32_t r = 0; r < RANKS && e != CANCELLED_EARLY; r++)
        answer(w, r, e);
    if (e == CANCELLED_EARLY || e == CANCELLED_LATE)
        cancel_all(w);
    else
        pull_all(w, e);
}

/* The owner's weights are those of the replicas + its residual. */
static void compare_models(world *w)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        owner *o = &w->owner[r];
        require_status(tlc_allreduce_part(o->rank, 0, &o->part), TLC_OK);
        for (size_t i = at.i = 0; i < o->part.n; at.i = ++i) {
            const float residual = o->part.residual ? o->part.residual[i] : 0;
            require(fabsf(w->replica[o->part.first + i] + residual - o->weights[i]) < 1e-4f);
        }
    }
}

static double loss(const world *w)
{
    double sum = 0;

    for (size_t i = 0; i < N; i++) {
        double mean = ((double)w->target[0][i] + w->target[1][i] + w->target[2][i]) / 3;
        sum += (w->replica[i] - mean) * (w->replica[i] - mean);
    }
    return sum;
}

/* A training reaches its minimum, though every other step fails in one way or another. */
TEST(models_stay_equal)
{
    static const char *const texts[] = {"3lc", "3lc:s=1.25", "onebit", "raw"};

    for (size_t c = 0; c < COUNT(texts); c++)
        for (ending e = ENDS; e < ENDINGS; e++) {
            static world w;
            w = (world){.replica = {0}};
            open_world(&w, texts[c]);
            const double start = loss(&w);
            for (size_t i = 1; i <= STEPS; i++) {
                at.n = i;
                step(&w, i % 2 ? ENDS : e);
                compare_models(&w);
            }
            if (loss(&w) > 0.02 * start)
                print_message("# %s, %s: %g of %g\n", texts[c], words[e], loss(&w), start);
            require(loss(&w) <= 0.02 * start);
            for (uint32_t r = 0; r < RANKS; r++)
                tlc_allreduce_destroy(w.owner[r].rank);
        }
}

/* ---- ranks that own nothing -------------------------------------------------------------------------------------- */

/* They may average and answer, or not. */
TEST(ranks_that_own_nothing)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = 3, .only = TLC_NOBODY};
    const float gradient[] = {1, 2, 4}, change[] = {-8, 0, 16}, *delta[] = {change};
    const void *grads[] = {gradient};
    tlc_allreduce *rank[RANKS];
    tlc_message push[RANKS][RANKS], answers[RANKS] = {{NULL, 0}};
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = RANKS;
    cfg.owners = 1;
    for (uint32_t r = 0; r < RANKS; r++) {
        require_status(tlc_allreduce_create(&rank[r], &cfg, r, &tensor, 1), TLC_OK);
        require_status(tlc_allreduce_push(rank[r], grads, 1, push[r]), TLC_OK);
    }
    const tlc_message from[] = {push[0][0], push[1][0], push[2][0]};
    require_status(tlc_allreduce_average(rank[0], from), TLC_OK);
    require_status(tlc_allreduce_answer(rank[0], delta, &answers[0]), TLC_OK);
    require_status(tlc_allreduce_average(rank[1], from), TLC_OK);
    require_status(tlc_allreduce_answer(rank[1], NULL, &answers[1]), TLC_OK);
    require(answers[0].len && !answers[1].len);
    for (uint32_t r = 0; r < RANKS; r++) {
        float out[3] = {0};
        void *at_out[] = {out};
        require_status(tlc_allreduce_pull(rank[r], answers, at_out), TLC_OK);
        require(same(out, change, sizeof out));
    }
    for (uint32_t r = 0; r < RANKS; r++)
        tlc_allreduce_destroy(rank[r]);
}
