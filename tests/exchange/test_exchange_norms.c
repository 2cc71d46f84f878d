/* SPDX-License-Identifier: MIT
 *
 * Signals and residuals in statistics: sums of squares of what came and of what was left, as plain loops find them, and
 * the same bits for any ISA, tlc_parallel and float mode.
 */
#include "../support/exchange_run.h"
#include "../support/float_modes.h"
#include <math.h>

enum { WORKERS = 3, STEPS = 4 };

typedef struct squares {
    double signal, residual;
} squares;

static int close_to(double got, double want)
{
    return fabs(got - want) <= 1e-12 * want;
}

/* Tensors of 0 to 1000 values: all of them count. Those of another worker are not sent. */
static squares of_pushes(const fleet *f, uint32_t w)
{
    squares sum = {0, 0};

    for (size_t t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < f->tensors[t].n && is_sent(&f->tensors[t], w); i++) {
            const double g = (double)fleet_grad(f, w, t, i), r = (double)f->residual[w * TENSORS + t][i];
            sum.signal += g * g;
            sum.residual += r * r;
        }
    return sum;
}

static squares of_answers(const fleet *f, uint32_t owner)
{
    const float *const *delta = f->deltas && f->deltas[owner] ? f->deltas[owner] : NULL;
    squares sum = {0, 0};

    for (size_t p = 0; p < member_parts(f->owner[owner]); p++) {
        const tlc_part part = member_part(f->owner[owner], p);
        for (size_t i = 0; i < part.n; i++) {
            const double v = (double)(delta ? delta[p][i] : part.mean[i]);
            const double r = part.residual ? (double)part.residual[i] : 0;
            sum.signal += v * v;
            sum.residual += r * r;
        }
    }
    return sum;
}

static void open_fleet(fleet *f, fleet_kind kind, const codec_case *c, tlc_dtype dtype, int residuals)
{
    tlc_exchange_config cfg = fleet_config(kind, WORKERS, large_tensors);

    at.codec = c->text;
    at.dtype = dtype;
    cfg.push = cfg.pull = c->text;
    cfg.dtype = dtype;
    fleet_open(f, &cfg, large_tensors, residuals);
    f->delta = fleet_half;
}

/* ---- what they are ----------------------------------------------------------------------------------------------- */

static void require_all(const fleet *f)
{
    for (uint32_t w = 0; w < f->workers; w++) {
        const squares want = of_pushes(f, w);
        const tlc_exchange_stats s = member_stats(f->worker[w]);
        require(close_to(s.push_signal_squares, want.signal) && want.signal > 0);
        require(close_to(s.push_residual_squares, want.residual));
    }
    for (uint32_t o = 0; o < f->owners; o++) {
        const squares want = of_answers(f, o);
        const tlc_exchange_stats s = member_stats(f->owner[o]);
        require(close_to(s.pull_signal_squares, want.signal));
        require(close_to(s.pull_residual_squares, want.residual));
    }
}

/* Codecs with error feedback, shared frames of small tensors, residuals of the caller, parts of cut tensors, deltas. */
TEST(norms_are_plain_sums)
{
    size_t turn = 0;

    FOR_EACH_CODEC(c)
        if (c->feedback)
            FOR_EACH_KIND(kind) {
                fleet f;
                open_fleet(&f, kind, c, dtypes[turn++ % 3], 1);
                for (uint64_t step = 1; step <= STEPS; step++) {
                    fleet_step(&f, step);
                    require_pulled(&f, TLC_OK);
                    require_all(&f);
                }
                fleet_close(&f);
            }
}

TEST(no_residual_is_0)
{
    FOR_EACH_CODEC(c)
        if (!c->feedback) {
            fleet f;
            open_fleet(&f, THREE_SERVERS, c, TLC_F32, 0);
            fleet_step(&f, 1);
            for (uint32_t w = 0; w < f.workers; w++)
                require(member_stats(f.worker[w]).pull_signal_squares == 0);
            for (uint32_t o = 0; o < f.owners; o++) {
                require(member_stats(f.owner[o]).push_signal_squares == 0);
                require(member_stats(f.owner[o]).push_residual_squares == 0);
            }
            fleet_close(&f);
        }
}

/* ---- steps that fail --------------------------------------------------------------------------------------------- */

/* Who makes no frames keeps the numbers of the last ones. */
TEST(failed_steps_keep_the_last)
{
    const uint16_t nan[2] = {0x7fc0, 0x7fc0};
    const codec_case *c = codecs;
    fleet f;

    while (strcmp(c->text, "3lc") != 0)
        c++;
    open_fleet(&f, SHARDED, c, TLC_F32, 1);
    fleet_step(&f, 1);
    const tlc_exchange_stats bad = member_stats(f.worker[0]), good = member_stats(f.worker[1]);
    fleet_gradients(&f, 2);
    memcpy(f.grad[3], nan, sizeof nan);
    fleet_push(&f);
    fleet_reduce(&f);
    fleet_pull(&f);
    require_pulled(&f, TLC_ERR_STEP);
    require(member_stats(f.worker[0]).push_signal_squares == bad.push_signal_squares);
    require(member_stats(f.worker[0]).push_residual_squares == bad.push_residual_squares);
    require(member_stats(f.worker[1]).push_signal_squares != good.push_signal_squares);
    require(member_stats(f.worker[1]).pull_residual_squares == good.pull_residual_squares);
    f.absent[2] = 1;
    const tlc_exchange_stats before = member_stats(f.worker[2]);
    fleet_step(&f, 3);
    require(member_stats(f.worker[2]).push_signal_squares == before.push_signal_squares);
    fleet_close(&f);
}

/* ---- everywhere the same ----------------------------------------------------------------------------------------- */

static float_mode mode_now;

static void in_mode(fleet *f, int before)
{
    (void)f;
    require(mode_around(mode_now, before));
}

typedef struct all_stats {
    tlc_exchange_stats worker[WORKERS], owner[WORKERS];
} all_stats;

/* Large enough to be cut into ranges and to be looked at in pieces. */
static const tlc_tensor wide[TENSORS] = {
    {.struct_size = sizeof(tlc_tensor), .name = "a", .n = 100000, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "b", .n = 4001, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "c", .n = 511, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "d", .n = 513, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "e", .n = 2000, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "f", .n = 1, .only = TLC_NOBODY},
    {.struct_size = sizeof(tlc_tensor), .name = "g", .n = 0, .only = TLC_NOBODY},
};

static void run(all_stats *all, tlc_isa isa, const runner *by, float_mode mode)
{
    tlc_exchange_config cfg = fleet_config(SHARDED, WORKERS, wide);
    fleet f;

    memset(all, 0, sizeof *all);
    cfg.push = cfg.pull = "3lc:s=1.75";
    cfg.isa = at.isa = isa;
    cfg.parallel = by->parallel;
    fleet_open(&f, &cfg, wide, 0);
    f.around = in_mode;
    mode_now = mode;
    for (uint64_t step = 1; step <= 2; step++)
        fleet_step(&f, step);
    for (uint32_t i = 0; i < WORKERS; i++) {
        all->worker[i] = member_stats(f.worker[i]);
        all->owner[i] = member_stats(f.owner[i]);
    }
    fleet_close(&f);
}

TEST(the_same_bits_everywhere)
{
    all_stats want, got;
    size_t turn = 0;

    run(&want, TLC_ISA_SCALAR, &runners[0], MODE_DEFAULT);
    FOR_EACH_ISA(isa)
        for (size_t r = 0; r < runner_count; r++) {
            const float_mode mode = (float_mode)(turn++ % MODE_COUNT);
            run(&got, isa, &runners[r], has_mode(mode) ? mode : MODE_DEFAULT);
            require(same(&got, &want, sizeof got));
        }
}

/* ---- pieces of large tensors ------------------------------------------------------------------------------------- */

/* A step sees a 64th of these values and is off by a few percent; in 64 steps every piece has its turn. */
TEST(pieces_have_their_turns)
{
    enum { N = 64 * 4096, TURNS = 64, PIECE = 64 };
    tlc_tensor one = {.struct_size = sizeof one, .name = "a", .n = N, .only = TLC_NOBODY};
    tlc_exchange_config cfg;
    tlc_allreduce *a;
    float *g = calloc(N, sizeof *g), *out = calloc(N, sizeof *out);
    const void *grads[1] = {g};
    void *results[1] = {out};
    double sum = 0;

    require(g && out);
    for (size_t i = 0; i < N; i++)
        g[i] = i / PIECE % 977 == 5 ? 3.0f : 0.0f; /* few pieces have all there is */
    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = 1;
    cfg.push = cfg.pull = "raw";
    cfg.reserve = "3lc"; /* so that there are residuals */
    require_status(tlc_allreduce_create(&a, &cfg, 0, &one, 1), TLC_OK);
    for (int step = 0; step < TURNS; step++) {
        tlc_exchange_stats s = {.struct_size = sizeof s};
        tlc_message to, answer;
        require_status(tlc_allreduce_push(a, grads, 1, &to), TLC_OK);
        require_status(tlc_allreduce_reduce(a, &to, &answer), TLC_OK);
        require_status(tlc_allreduce_pull(a, &answer, results), TLC_OK);
        require_status(tlc_allreduce_stats(a, &s), TLC_OK);
        require(s.pull_signal_squares == s.push_signal_squares && s.pull_residual_squares == 0);
        sum += s.push_signal_squares;
    }
    double want = 0;
    for (size_t i = 0; i < N; i++)
        want += (double)g[i] * (double)g[i];
    require(close_to(sum / TURNS, want));
    tlc_allreduce_destroy(a);
    free(g);
    free(out);
}

SETUP(print_isas)
