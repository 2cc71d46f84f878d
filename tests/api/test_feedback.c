/* SPDX-License-Identifier: MIT
 *
 * Error feedback: the residual as memory of the context or of the caller, changes to it between calls, and both ways of
 * the first sweep.
 */
#include "../support/support.h"
#include <float.h>
#include <math.h>

enum { N = 317 };

static uint8_t frame1[16 * N + 64], frame2[16 * N + 64];

static void require_same_step(tlc_ctx *a, tlc_ctx *b, const void *grad_a, const void *grad_b)
{
    size_t len_a = compress(a, grad_a, frame1), len_b = compress(b, grad_b, frame2);

    require(len_a == len_b && same(frame1, frame2, len_a));
    require(!tlc_residual(a) == !tlc_residual(b));
    require(!tlc_residual(a) || same(tlc_residual(a), tlc_residual(b), N * sizeof(float)));
}

TEST(feedback_on_and_off)
{
    uint8_t grad[4 * N];

    FOR_EACH_CODEC(c)
        for (int feedback = -1; feedback <= 1; feedback++) {
            tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
            int on = feedback == 1 || (feedback == -1 && c->feedback);
            at = (place){.codec = c->text, .n = N, .i = (size_t)(feedback + 1)};
            cfg.feedback = feedback;
            fill_grad(DATA_LAPLACE, 1, TLC_F32, grad, N);
            tlc_ctx *ctx = create(&cfg, N);
            require((tlc_residual(ctx) != NULL) == on);
            require(!on || all_bytes(tlc_residual(ctx), 4 * N, 0));
            size_t len1 = compress(ctx, grad, frame1), len2 = compress(ctx, grad, frame2);
            /* otherwise the residual changes the second frame */
            int repeats = (!on || c->lossless) && (!c->random || c->random > N);
            require((len1 == len2 && same(frame1, frame2, len1)) == repeats);
            tlc_destroy(ctx);
        }
}

TEST(accumulate_and_send)
{
    uint8_t grad[4 * N];

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa) {
                tlc_config cfg = config(c->text, dtype, isa);
                float before[N];
                cfg.feedback = 1;
                at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
                tlc_ctx *a = create(&cfg, N), *b = create(&cfg, N);
                for (uint64_t step = 0; step < 3; step++) {
                    fill_grad(DATA_LAPLACE, step, dtype, grad, N);
                    memcpy(before, tlc_residual(a), sizeof before);
                    require_status(tlc_accumulate(a, grad), TLC_OK);
                    for (size_t i = 0; i < N; i++) {
                        volatile float sum = before[i] + bits_float(widened(dtype, grad, i));
                        require(tlc_residual(a)[i] == sum);
                    }
                    require_same_step(a, b, NULL, grad);
                }
                tlc_destroy(a);
                tlc_destroy(b);
            }
}

TEST(without_feedback)
{
    float g[N];
    size_t written = 77;

    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        cfg.feedback = 0;
        fill(DATA_LAPLACE, 1, g, N);
        tlc_ctx *ctx = create(&cfg, N);
        require(tlc_residual(ctx) == NULL);
        require_status(tlc_accumulate(ctx, g), TLC_ERR_UNSUPPORTED);
        require_status(tlc_accumulate(ctx, NULL), TLC_ERR_UNSUPPORTED);
        require_status(tlc_compress(ctx, NULL, frame1, tlc_bound(ctx), &written), TLC_ERR_UNSUPPORTED);
        require_status(tlc_residual_scale(ctx, 1.0f), TLC_ERR_UNSUPPORTED);
        require(written == 77);
        tlc_reset(ctx);
        tlc_destroy(ctx);
    }
}

/* raw without feedback sends any bits, NaN included, bit for bit. */
TEST(exact_codecs_send_any_bits)
{
    uint8_t grad[4 * N], out[4 * N];
    rng r = {21};

    for (size_t i = 0; i < sizeof grad; i++)
        grad[i] = i % 8 < 4 ? (uint8_t)rng_next(&r) : i % 4 > 1 ? 0xff : (uint8_t)(rng_next(&r) | 1); /* many NaN */
    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa) {
                tlc_config cfg = config(c->text, dtype, isa);
                tlc_decode_options opt = {.struct_size = sizeof opt, .isa = isa};
                if (!c->exact)
                    continue;
                cfg.feedback = 0;
                at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
                tlc_ctx *ctx = create(&cfg, N);
                size_t len = compress(ctx, grad, frame1);
                require_status(tlc_decompress(frame1, len, dtype, out, N, &opt), TLC_OK);
                require(same(grad, out, N * dtype_size[dtype]));
                tlc_destroy(ctx);
            }
}

/* Lossless codecs send every finite value as it is, except that -0 becomes +0. */
TEST(lossless_codecs)
{
    float g[N], out[N];

    FOR_EACH_CODEC(c)
        for (int kind = 0; c->lossless && kind < DATA_COUNT; kind++) {
            tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
            cfg.feedback = 1;
            at = (place){.codec = c->text, .n = N};
            fill((data_kind)kind, 6, g, N);
            tlc_ctx *ctx = create(&cfg, N);
            size_t len = compress(ctx, g, frame1);
            require_status(tlc_decompress(frame1, len, TLC_F32, out, N, NULL), TLC_OK);
            for (at.i = 0; at.i < N; at.i++)
                require(out[at.i] == g[at.i] && tlc_residual(ctx)[at.i] == 0);
            tlc_destroy(ctx);
        }
}

/* ---- seeds and steps --------------------------------------------------------------------------------------------- */

typedef struct trial {
    uint64_t seed;
    size_t before; /* compressions of the same context */
} trial;

static size_t try(const codec_case *c, const trial *t, const float *g, size_t n, uint8_t *dst)
{
    tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);

    cfg.seed = t->seed;
    cfg.feedback = 0;
    tlc_ctx *ctx = create(&cfg, n);
    for (size_t i = 0; i < t->before; i++)
        compress(ctx, g, dst);
    size_t len = compress(ctx, g, dst);
    tlc_destroy(ctx);
    return len;
}

/* Frames of stochastic codecs depend on seed, step and values, those of others only on the values. All 64 bits of the
 * seed count. */
TEST(seeds_and_steps)
{
    static const trial trials[] = {{0, 0}, {1, 0}, {UINT64_C(1) << 32, 0}, {UINT64_C(1) << 63, 0}, {0, 1},
                                   {0, 2}, {1, 1}};
    size_t most = 20000;
    float *g = floats(most);
    uint8_t *frames[COUNT(trials)], *again = bytes(16 * most);

    for (size_t t = 0; t < COUNT(trials); t++)
        frames[t] = bytes(16 * most);
    fill(DATA_LAPLACE, 1, g, most);
    FOR_EACH_CODEC(c) {
        size_t n = c->random > N ? c->random : N, len[COUNT(trials)];
        at = (place){.codec = c->text, .n = n};
        for (size_t t = 0; t < COUNT(trials); t++) {
            len[t] = try(c, &trials[t], g, n, frames[t]);
            for (size_t other = 0; other < t; other++) {
                at.i = t * 10 + other;
                require((len[t] == len[other] && same(frames[t], frames[other], len[t])) == !c->random);
            }
            require(try(c, &trials[t], g, n, again) == len[t] && same(again, frames[t], len[t]));
        }
    }
    free(g);
    free(again);
    for (size_t t = 0; t < COUNT(trials); t++)
        free(frames[t]);
}

/* A call that fails does not count as a step. */
TEST(steps_are_successes)
{
    float g[N], bad[N];

    fill(DATA_LAPLACE, 1, g, N);
    memcpy(bad, g, sizeof g);
    bad[N / 2] = INFINITY;
    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        size_t written = 77;
        at = (place){.codec = c->text, .n = N};
        cfg.feedback = 1;
        tlc_ctx *a = create(&cfg, N), *b = create(&cfg, N);
        require_same_step(a, b, g, g);
        require_status(tlc_compress(a, g, frame1, tlc_bound(a) - 1, &written), TLC_ERR_CAPACITY);
        require_status(tlc_compress(a, bad, frame1, tlc_bound(a), &written), TLC_ERR_NONFINITE);
        require_same_step(a, b, g, g);
        tlc_destroy(a);
        tlc_destroy(b);
    }
}

/* ---- whose residual ---------------------------------------------------------------------------------------------- */

TEST(callers_residual)
{
    float residual[N], g[N];

    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        cfg.feedback = 1;
        at = (place){.codec = c->text, .n = N};
        tlc_ctx *owned = create(&cfg, N);
        fill(DATA_LAPLACE, 5, residual, N);
        memcpy(tlc_residual(owned), residual, sizeof residual); /* it may be written between calls */
        cfg.residual = residual;
        tlc_ctx *given = create(&cfg, N);
        require(tlc_residual(given) == residual); /* the values in it are used */
        for (uint64_t step = 0; step < 3; step++) {
            fill(DATA_LAPLACE, step, g, N);
            require_same_step(owned, given, g, g);
            residual[7] += 1.0f;
            tlc_residual(owned)[7] += 1.0f;
        }
        tlc_destroy(given);
        require(same(residual, tlc_residual(owned), sizeof residual)); /* it is still there after tlc_destroy */
        tlc_destroy(owned);
    }
}

TEST(reset)
{
    float g[N], residual[N];

    FOR_EACH_CODEC(c)
        for (int own = 0; own < 2; own++) {
            tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
            at = (place){.codec = c->text, .n = N};
            memset(residual, 0, sizeof residual);
            cfg.feedback = 1;
            cfg.seed = 9;
            cfg.residual = own ? residual : NULL;
            fill(DATA_LAPLACE, 5, g, N);
            tlc_ctx *ctx = create(&cfg, N);
            snapshot fresh = snap(ctx);
            size_t first = compress(ctx, g, frame1);
            require_status(tlc_accumulate(ctx, g), TLC_OK);
            compress(ctx, NULL, frame2);
            tlc_reset(ctx);
            require_same_state(ctx, &fresh); /* residual and step at 0, codec and seed kept */
            snap_free(&fresh);
            size_t len = compress(ctx, g, frame2); /* the same frame again */
            require(len == first && same(frame1, frame2, len));
            tlc_destroy(ctx);
        }
}

/* ---- scaling ----------------------------------------------------------------------------------------------------- */

TEST(residual_scale)
{
    static const float factors[] = {0.0f, 1.0f, -1.0f, 0.1f, 3.0f, 1e-30f, FLT_MIN};
    float before[N];

    FOR_EACH_ISA(isa)
        for (size_t f = 0; f < COUNT(factors); f++)
            for (int kind = 0; kind < DATA_COUNT; kind++) {
                tlc_config cfg = config("3lc", TLC_F32, isa);
                at = (place){.isa = isa, .n = N, .i = f};
                tlc_ctx *ctx = create(&cfg, N);
                fill((data_kind)kind, 2, before, N);
                memcpy(tlc_residual(ctx), before, sizeof before);
                require_status(tlc_residual_scale(ctx, factors[f]), TLC_OK);
                for (size_t i = 0; i < N; i++) {
                    volatile float want = before[i] * factors[f];
                    require(float_bits(want) == float_bits(tlc_residual(ctx)[i]));
                }
                tlc_destroy(ctx);
            }
}

/* The largest product decides: just finite, or just not. */
TEST(residual_scale_limits)
{
    tlc_config cfg = config("3lc", TLC_F32, TLC_ISA_AUTO);
    tlc_ctx *ctx = create(&cfg, N);

    tlc_residual(ctx)[N - 1] = -FLT_MAX / 2;
    require_status(tlc_residual_scale(ctx, 2.0f), TLC_OK);
    require(tlc_residual(ctx)[N - 1] == -FLT_MAX);
    snapshot s = snap(ctx);
    require_status(tlc_residual_scale(ctx, bits_float(0x3f800001u)), TLC_ERR_NONFINITE);
    require_status(tlc_residual_scale(ctx, NAN), TLC_ERR_PARAM);
    require_status(tlc_residual_scale(ctx, -INFINITY), TLC_ERR_PARAM);
    require_same_state(ctx, &s);
    snap_free(&s);
    tlc_destroy(ctx);
}

/* ---- assume_finite ----------------------------------------------------------------------------------------------- */

TEST(assume_finite_is_the_same)
{
    uint8_t grad[4 * N];

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                for (int feedback = 0; feedback < 2; feedback++) {
                    tlc_config cfg = config(c->text, dtype, isa);
                    at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
                    cfg.feedback = feedback;
                    tlc_ctx *a = create(&cfg, N);
                    cfg.assume_finite = 1;
                    tlc_ctx *b = create(&cfg, N);
                    for (uint64_t step = 0; step < 4; step++) {
                        fill_grad((data_kind)(step % DATA_COUNT), step, dtype, grad, N);
                        if (feedback && step == 2) {
                            require_status(tlc_accumulate(a, grad), TLC_OK);
                            require_status(tlc_accumulate(b, grad), TLC_OK);
                        }
                        const uint8_t *g = feedback && step == 3 ? NULL : grad;
                        require_same_step(a, b, g, g);
                    }
                    tlc_destroy(a);
                    tlc_destroy(b);
                }
}

/* Values that are not finite are reported in this way, too. After tlc_reset the context is as good as new. */
TEST(assume_finite_reports)
{
    float g[N];
    size_t written = 77;

    FOR_EACH_CODEC(c)
        FOR_EACH_ISA(isa)
            for (size_t i = 0; i < N; i += N / 2) {
                tlc_config cfg = config(c->text, TLC_F32, isa);
                at = (place){.codec = c->text, .isa = isa, .n = N, .i = i};
                cfg.feedback = 1;
                tlc_ctx *fresh = create(&cfg, N);
                cfg.assume_finite = 1;
                tlc_ctx *ctx = create(&cfg, N);
                fill(DATA_LAPLACE, 3, g, N);
                float was = g[i];
                g[i] = i ? NAN : -INFINITY;
                require_status(tlc_compress(ctx, g, frame1, tlc_bound(ctx), &written), TLC_ERR_NONFINITE);
                require(written == 77);
                tlc_reset(ctx);
                require_status(tlc_accumulate(ctx, g), TLC_ERR_NONFINITE);
                tlc_reset(ctx);
                g[i] = was;
                require_same_step(fresh, ctx, g, g);
                require_same_step(fresh, ctx, g, g);
                tlc_destroy(fresh);
                tlc_destroy(ctx);
            }
}

/* ---- dtypes ------------------------------------------------------------------------------------------------------ */

/* A 16-bit gradient gives the frame of its values as binary32. Only the dtype in the header and raw's values differ. */
TEST(narrow_gradients)
{
    uint8_t grad[2 * N];
    float wide[N];

    FOR_EACH_CODEC(c)
        for (tlc_dtype dtype = TLC_F16; dtype <= TLC_BF16; dtype++)
            FOR_EACH_ISA(isa) {
                tlc_config cfg = config(c->text, dtype, isa);
                at = (place){.codec = c->text, .dtype = dtype, .isa = isa, .n = N};
                if (c->exact)
                    continue;
                cfg.feedback = (int)isa % 2 ? -1 : 1;
                tlc_ctx *narrow = create(&cfg, N);
                cfg.dtype = TLC_F32;
                tlc_ctx *full = create(&cfg, N);
                for (uint64_t step = 0; step < 3; step++) {
                    fill_grad(DATA_LAPLACE, step, dtype, grad, N);
                    widen(dtype, grad, wide, N);
                    size_t len = compress(narrow, grad, frame1);
                    require(compress(full, wide, frame2) == len);
                    frame2[1] |= (uint8_t)dtype; /* the flags, as src/frames/frame.h draws them */
                    require(same(frame1, frame2, len));
                    require(!tlc_residual(narrow) == !tlc_residual(full));
                    require(!tlc_residual(full) || same(tlc_residual(narrow), tlc_residual(full), sizeof wide));
                }
                tlc_destroy(narrow);
                tlc_destroy(full);
            }
}

SETUP(print_isas)
