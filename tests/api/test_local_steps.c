/* SPDX-License-Identifier: MIT
 *
 * Local steps, for every codec: tlc_accumulate k - 1 times and then tlc_compress give the frame of the sum. k = 2 is "2
 * local steps" of 3LC, 10 and 100 are the communication delays of Sparse Binary Compression, and tlc_mask is its
 * momentum masking. (Nothing is lost: p6_nothing_is_lost.c.)
 */
#include "../support/support.h"

enum { N = 1201, ROOM = 16 * N + 64 };

static const size_t delays[] = {2, 10, 100};

/* A run, its gradients and results; two frames, to compare. */
typedef struct training {
    const codec_case *codec;
    tlc_config cfg;
    uint8_t grad[4 * N], frame[ROOM], other[ROOM];
    float sum[N]; /* the residual as it must be */
    uint64_t step;
} training;

static training *begin(const codec_case *c, tlc_dtype dtype, tlc_isa isa)
{
    training *t = calloc(1, sizeof *t);

    require(t != NULL);
    t->codec = c;
    t->cfg = config(c->text, dtype, isa);
    t->cfg.feedback = 1;
    t->cfg.seed = 0x5eed;
    at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
    return t;
}

static void next_gradient(training *t)
{
    fill_grad(t->step % 3 == 2 ? DATA_SPARSE : DATA_LAPLACE, t->step, t->cfg.dtype, t->grad, N);
    t->step++;
    for (size_t i = 0; i < N; i++) {
        volatile float sum = t->sum[i] + bits_float(widened(t->cfg.dtype, t->grad, i));
        t->sum[i] = sum;
    }
}

static void local_steps(training *t, tlc_ctx *ctx, size_t count)
{
    while (count--) {
        next_gradient(t);
        require_status(tlc_accumulate(ctx, t->grad), TLC_OK);
        require(same(tlc_residual(ctx), t->sum, sizeof t->sum));
    }
}

/* ---- one compression of the sum ---------------------------------------------------------------------------------- */

/* One context takes local steps, another one takes their sum. */
static void frames_of_the_sum(training *t, size_t delay, size_t rounds)
{
    tlc_ctx *local = create(&t->cfg, N), *given = create(&t->cfg, N);

    for (size_t round = 0; round < rounds; round++) {
        at.i = round;
        local_steps(t, local, delay - 1);
        next_gradient(t);
        size_t len = compress(local, t->grad, t->frame);
        memcpy(tlc_residual(given), t->sum, sizeof t->sum);
        require(compress(given, NULL, t->other) == len && same(t->frame, t->other, len));
        require(same(tlc_residual(local), tlc_residual(given), sizeof t->sum));
        memcpy(t->sum, tlc_residual(local), sizeof t->sum);
    }
    tlc_destroy(local);
    tlc_destroy(given);
}

TEST(local_steps_are_a_sum)
{
    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa)
            for (size_t d = 0; d < COUNT(delays); d++) {
                training *t = begin(c, dtypes[(d + (size_t)isa) % 3], isa);
                frames_of_the_sum(t, delays[d], delays[d] == 100 && quick() ? 1 : 3);
                free(t);
            }
}

/* With tlc_parallel tasks share the sweeps. */
TEST(local_steps_with_tasks)
{
    size_t n = 16384 * 3 + 5;
    float *g = floats(n);

    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        cfg.feedback = 1;
        at = (place){.codec = c->text, .n = n};
        tlc_ctx *alone = create(&cfg, n);
        cfg.parallel = runners[1 + (size_t)(c - codecs) % (runner_count - 1)].parallel;
        cfg.assume_finite = 1;
        tlc_ctx *shared = create(&cfg, n);
        uint8_t *want = bytes(tlc_bound(alone)), *got = bytes(tlc_bound(alone));
        most_tasks = 0;
        for (uint64_t step = 0; step < 3; step++) {
            fill(DATA_LAPLACE, step, g, n);
            require_status(tlc_accumulate(alone, g), TLC_OK);
            require_status(tlc_accumulate(shared, g), TLC_OK);
        }
        require(most_tasks == 3);
        size_t len = compress(alone, NULL, want);
        require(compress(shared, NULL, got) == len && same(want, got, len));
        require(same(tlc_residual(alone), tlc_residual(shared), 4 * n));
        tlc_destroy(alone);
        tlc_destroy(shared);
        free(want);
        free(got);
    }
    free(g);
}

/* ---- a checkpoint in the middle of a delay ----------------------------------------------------------------------- */

TEST(state_in_mid_delay)
{
    FOR_EACH_CODEC(c)
        for (size_t d = 0; d < 2; d++) {
            training *t = begin(c, dtypes[d], TLC_ISA_AUTO);
            tlc_ctx *ctx = create(&t->cfg, N);
            size_t first = delays[d] / 2;
            local_steps(t, ctx, delays[d] - 1);
            next_gradient(t);
            compress(ctx, t->grad, t->frame);
            memcpy(t->sum, tlc_residual(ctx), sizeof t->sum);
            local_steps(t, ctx, first);
            snapshot saved = snap(ctx);
            t->cfg.seed = 1;
            tlc_ctx *loaded = create(&t->cfg, N);
            require_status(tlc_state_load(loaded, saved.state, saved.size), TLC_OK);
            for (size_t k = first; k < delays[d]; k++) {
                next_gradient(t);
                require_status(tlc_accumulate(ctx, t->grad), TLC_OK);
                require_status(tlc_accumulate(loaded, t->grad), TLC_OK);
            }
            size_t len = compress(ctx, NULL, t->frame);
            require(compress(loaded, NULL, t->other) == len && same(t->frame, t->other, len));
            snap_free(&saved);
            saved = snap(ctx);
            require_same_state(loaded, &saved);
            snap_free(&saved);
            tlc_destroy(ctx);
            tlc_destroy(loaded);
            free(t);
        }
}

/* ---- momentum masking -------------------------------------------------------------------------------------------- */

/* Momentum becomes +0 where a value was sent, and nowhere else. There the residual is what the decoded value left. */
TEST(momentum_masking)
{
    FOR_EACH_CODEC(c)
        for (size_t round = 0; round < 3; round++) {
            training *t = begin(c, TLC_F32, TLC_ISA_AUTO);
            tlc_ctx *ctx = create(&t->cfg, N);
            float momentum[N], values[N];
            tlc_frame_info info = {.struct_size = sizeof info};
            size_t sent = 0;
            t->step = round;
            local_steps(t, ctx, round);
            next_gradient(t);
            size_t len = compress(ctx, t->grad, t->frame);
            require_status(tlc_decompress(t->frame, len, TLC_F32, values, N, NULL), TLC_OK);
            require_status(tlc_inspect(t->frame, len, &info), TLC_OK);
            for (size_t i = 0; i < N; i++)
                momentum[i] = i % 2 ? -0.5f : 1e-40f;
            require_status(tlc_mask(t->frame, len, momentum, N, NULL), c->has_zero ? TLC_OK : TLC_ERR_UNSUPPORTED);
            for (at.i = 0; at.i < N; at.i++) {
                int masked = c->has_zero && (float_bits(values[at.i]) & 0x7fffffffu) != 0;
                volatile float left = t->sum[at.i] - values[at.i];
                require(float_bits(momentum[at.i]) == float_bits(masked ? 0 : at.i % 2 ? -0.5f : 1e-40f));
                require(float_bits(tlc_residual(ctx)[at.i]) == float_bits(left));
                sent += (size_t)masked;
            }
            require(info.nonzero == (c->has_zero ? sent : TLC_UNKNOWN) && (sent || !c->has_zero));
            tlc_destroy(ctx);
            free(t);
        }
}

SETUP(print_isas)
