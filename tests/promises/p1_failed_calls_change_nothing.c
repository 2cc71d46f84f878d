/* SPDX-License-Identifier: MIT
 *
 * P1: a failed call changes neither residual, output nor state; a capacity below tlc_bound is refused up front.
 */
#include "../support/support.h"
#include <float.h>
#include <math.h>

#define FILL 0x3c

/* Bits of values that are not finite. f16 and bf16 take the upper half, shifted for f16. */
static const uint32_t nonfinite[] = {0x7f800000u, 0xff800000u, 0x7fc00000u, 0xffffffffu, 0x7fbfe000u};

static void poison(tlc_dtype dtype, void *grad, size_t i, uint32_t bits)
{
    uint16_t half = (uint16_t)(bits >> 16);

    if (dtype == TLC_F16)
        half = (uint16_t)((half & 0x8000u) | 0x7c00u | (bits >> 13 & 0x3ffu));

    if (dtype == TLC_F32)
        memcpy((uint8_t *)grad + 4 * i, &bits, 4);
    else
        memcpy((uint8_t *)grad + 2 * i, &half, 2);
}

/* A context after one step, and what a call that must fail may not change. */
typedef struct fixture {
    tlc_ctx *ctx;
    snapshot before;
    uint8_t *grad, *dst;
    size_t cap;
} fixture;

static fixture set_up(const tlc_config *cfg, size_t n)
{
    fixture f = {create(cfg, n), {NULL, 0, 0}, bytes(n * 4), NULL, 0};

    at.codec = cfg->codec;
    at.dtype = cfg->dtype;
    at.isa = cfg->isa;
    at.n = n;
    f.cap = tlc_bound(f.ctx);
    f.dst = bytes(f.cap);
    fill_grad(DATA_LAPLACE, n, cfg->dtype, f.grad, n);
    compress(f.ctx, f.grad, f.dst);
    fill_grad(DATA_SPARSE, n, cfg->dtype, f.grad, n);
    memset(f.dst, FILL, f.cap);
    f.before = snap(f.ctx);
    return f;
}

static void tear_down(fixture *f)
{
    tlc_destroy(f->ctx);
    snap_free(&f->before);
    free(f->grad);
    free(f->dst);
}

static void require_refused(fixture *f, const void *grad, size_t cap, tlc_status want)
{
    size_t written = 77;

    require_status(tlc_compress(f->ctx, grad, f->dst, cap, &written), want);
    require(written == 77 && all_bytes(f->dst, f->cap, FILL));
    require_same_state(f->ctx, &f->before);
}

/* ---- values that are not finite ---------------------------------------------------------------------------------- */

static void each_position(fixture *f, const tlc_config *cfg, size_t n)
{
    uint8_t saved[4];
    size_t size = dtype_size[cfg->dtype];

    for (size_t p = 0; p < 5; p++) {
        size_t i = p * (n - 1) / 4;
        at.i = i;
        memcpy(saved, f->grad + i * size, size);
        poison(cfg->dtype, f->grad, i, nonfinite[(p + n) % COUNT(nonfinite)]);
        require_refused(f, f->grad, f->cap, TLC_ERR_NONFINITE);
        if (tlc_residual(f->ctx)) {
            require_status(tlc_accumulate(f->ctx, f->grad), TLC_ERR_NONFINITE);
            require_same_state(f->ctx, &f->before);
        }
        memcpy(f->grad + i * size, saved, size);
    }
    require_status(tlc_compress(f->ctx, f->grad, f->dst, f->cap, &(size_t){0}), TLC_OK); /* no poison */
}

TEST(p1_nonfinite_gradient)
{
    static const size_t sizes[] = {1, 2, 5, 63, 200, 1025};

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                for (size_t s = 0; s < COUNT(sizes); s++) {
                    tlc_config cfg = config(c->text, dtype, isa);
                    cfg.feedback = c->exact ? 1 : (int)(s % 2); /* without feedback exact codecs send any value */
                    cfg.checksum = s % 3 == 0;
                    fixture f = set_up(&cfg, sizes[s]);
                    each_position(&f, &cfg, sizes[s]);
                    tear_down(&f);
                }
}

/* The poison is in a range, or in a group of blocks, that another task works on. */
TEST(p1_nonfinite_gradient_with_tasks)
{
    size_t n = 16384 * 4 + 11, step = quick() ? 2 : 1;

    FOR_EACH_CODEC(c)
        for (size_t r = quick() ? 1 + (size_t)(c - codecs) % 2 : 1; r < runner_count; r += step) {
            if (quick() && (c - codecs) % 3)
                break;
            tlc_config cfg = config(c->text, dtypes[r % 3], TLC_ISA_AUTO);
            cfg.feedback = 1;
            cfg.parallel = runners[r].parallel;
            at.note = runners[r].name;
            fixture f = set_up(&cfg, n);
            each_position(&f, &cfg, n);
            tear_down(&f);
        }
    at.note = NULL;
}

TEST(p1_nonfinite_by_way_of_the_residual)
{
    enum { N = 331 };

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa)
                for (size_t p = 0; p < 3; p++) {
                    tlc_config cfg = config(c->text, dtype, isa);
                    cfg.feedback = 1;
                    fixture f = set_up(&cfg, N);
                    size_t i = at.i = p * (N - 1) / 2;
                    snap_free(&f.before);
                    tlc_residual(f.ctx)[i] = bits_float(nonfinite[p]);
                    f.before = snap(f.ctx);
                    require_refused(&f, f.grad, f.cap, TLC_ERR_NONFINITE);
                    require_refused(&f, NULL, f.cap, TLC_ERR_NONFINITE);
                    require_status(tlc_accumulate(f.ctx, f.grad), TLC_ERR_NONFINITE);
                    require_status(tlc_residual_scale(f.ctx, 0.5f), TLC_ERR_NONFINITE);
                    require_same_state(f.ctx, &f.before);

                    if (dtype != TLC_F16) { /* the sum overflows; no f16 is large enough */
                        snap_free(&f.before);
                        tlc_residual(f.ctx)[i] = FLT_MAX;
                        poison(dtype, f.grad, i, 0x7f7f0000u);
                        f.before = snap(f.ctx);
                        require_refused(&f, f.grad, f.cap, TLC_ERR_NONFINITE);
                        require_status(tlc_accumulate(f.ctx, f.grad), TLC_ERR_NONFINITE);
                        require_same_state(f.ctx, &f.before);
                    }
                    tear_down(&f);
                }
}

/* max is finite, but s * max or x / p is not. This can be in the last block, too. */
TEST(p1_infinite_scale)
{
    static const char *const text[] = {"3lc:s=1.75",
                                       "ternary:s=1.5,block=7+quartic",
                                       "3lc:s=1.1,block=64",
                                       "ternary:s=1.5+golomb",
                                       "ternary:s=1.5,block=9+golomb",
                                       "random-sparse",
                                       "random-sparse:p=0.99,block=7"};

    for (size_t c = 0; c < COUNT(text); c++)
        FOR_EACH_ISA(isa)
            for (int feedback = 0; feedback < 2; feedback++) {
                tlc_config cfg = config(text[c], TLC_F32, isa);
                cfg.feedback = feedback;
                fixture f = set_up(&cfg, 200);
                for (size_t i = 0; i < 200; i += 199) {
                    poison(TLC_F32, f.grad, i, 0xff7fffffu);
                    require_refused(&f, f.grad, f.cap, TLC_ERR_NONFINITE);
                    poison(TLC_F32, f.grad, i, 0);
                }
                if (feedback) { /* tlc_accumulate takes it nevertheless */
                    poison(TLC_F32, f.grad, 199, 0xff7fffffu);
                    require_status(tlc_accumulate(f.ctx, f.grad), TLC_OK);
                }
                tear_down(&f);
            }
}

/* p is rounded up to P, a multiple of 2^-24. x / P must be finite: values just below and above that border. */
TEST(p1_largest_quotient)
{
    FOR_EACH_ISA(isa)
        for (int feedback = 0; feedback < 2; feedback++) {
            tlc_config cfg = config("random-sparse:p=0.24999995", TLC_F32, isa); /* P = 0.25 */
            cfg.feedback = feedback;
            fixture f = set_up(&cfg, 40);
            if (feedback)
                memset(tlc_residual(f.ctx), 0, 4 * 40);
            snap_free(&f.before);
            f.before = snap(f.ctx);
            poison(TLC_F32, f.grad, 39, 0x7e800000u); /* 2^126: times 4 it is infinite */
            require_refused(&f, f.grad, f.cap, TLC_ERR_NONFINITE);
            poison(TLC_F32, f.grad, 39, 0x7e7fffffu);
            require_status(tlc_compress(f.ctx, f.grad, f.dst, f.cap, &(size_t){0}), TLC_OK);
            tear_down(&f);
        }
}

/* raw with error feedback narrows the sum before it sends it. That must not overflow either. */
TEST(p1_narrowing_overflow)
{
    FOR_EACH_ISA(isa)
        for (tlc_dtype dtype = TLC_F16; dtype <= TLC_BF16; dtype++) {
            tlc_config cfg = config("raw", dtype, isa);
            /* halfway from the largest finite value to the next power of two */
            uint32_t bits = dtype == TLC_F16 ? 0x477ff000u : 0x7f7f8000u;
            cfg.feedback = 1;
            fixture f = set_up(&cfg, 31);
            snap_free(&f.before);
            tlc_residual(f.ctx)[30] = -bits_float(bits);
            f.before = snap(f.ctx);
            require_refused(&f, NULL, f.cap, TLC_ERR_NONFINITE);
            tlc_residual(f.ctx)[30] = -bits_float(bits - 1);
            require_status(tlc_compress(f.ctx, NULL, f.dst, f.cap, &(size_t){0}), TLC_OK);
            tear_down(&f);
        }
}

/* ---- room -------------------------------------------------------------------------------------------------------- */

/* A buffer of just this capacity between guard pages. */
static tlc_status try_capacity(fixture *f, arena *a, size_t cap, int state)
{
    uint8_t *dst = arena_take(a, cap, 1);
    size_t written = 77;
    tlc_status status;

    at.i = cap;
    memset(dst, FILL, cap);
    status = state ? tlc_state_save(f->ctx, dst, cap, &written) : tlc_compress(f->ctx, f->grad, dst, cap, &written);
    require(arena_intact(a));
    if (status) {
        require(written == 77 && all_bytes(dst, cap, FILL));
        require_same_state(f->ctx, &f->before);
    } else
        require(written <= cap);
    return status;
}

TEST(p1_capacity)
{
    static const size_t sizes[] = {0, 1, 4, 5, 6, 36, 73};
    arena a;

    arena_open(&a, 32 * 73 + 256);
    FOR_EACH_CODEC(c)
        for (size_t s = 0; s < 3 * COUNT(sizes); s++) {
            tlc_config cfg = config(c->text, dtypes[s / COUNT(sizes)], TLC_ISA_AUTO);
            cfg.checksum = s & 1;
            cfg.feedback = s >> 1 & 1;
            fixture f = set_up(&cfg, sizes[s % COUNT(sizes)]);
            for (size_t cap = 0; cap < f.cap; cap++)
                require_status(try_capacity(&f, &a, cap, 0), TLC_ERR_CAPACITY);
            for (size_t cap = 0; cap < f.before.size; cap++)
                require_status(try_capacity(&f, &a, cap, 1), TLC_ERR_CAPACITY);
            require_status(try_capacity(&f, &a, f.before.size, 1), TLC_OK);
            require_status(try_capacity(&f, &a, f.cap, 0), TLC_OK); /* the bound is enough */
            tear_down(&f);
        }
    arena_close(&a);
}

TEST(p1_bad_arguments)
{
    size_t written = 77;

    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, TLC_F32, TLC_ISA_AUTO);
        fixture f = set_up(&cfg, 50);
        require_status(tlc_compress(f.ctx, f.grad, NULL, f.cap, &written), TLC_ERR_PARAM);
        require_status(tlc_compress(f.ctx, f.grad, f.dst, f.cap, NULL), TLC_ERR_PARAM);
        require_status(tlc_compress(NULL, f.grad, f.dst, f.cap, &written), TLC_ERR_PARAM);
        require_status(tlc_set_codec(f.ctx, "no such codec"), TLC_ERR_PARAM);
        require_status(tlc_set_codec(f.ctx, NULL), TLC_ERR_PARAM);
        require_status(tlc_set_codec(f.ctx, "raw:block=1"), TLC_ERR_CAPACITY); /* larger than any other */
        require_status(tlc_residual_scale(f.ctx, INFINITY), TLC_ERR_PARAM);
        if (tlc_residual(f.ctx)) {
            require_status(tlc_accumulate(f.ctx, NULL), TLC_ERR_PARAM);
            tlc_residual(f.ctx)[49] = 1e38f;
            snap_free(&f.before);
            f.before = snap(f.ctx);
            require_status(tlc_residual_scale(f.ctx, -10.0f), TLC_ERR_NONFINITE);
        } else {
            require_status(tlc_accumulate(f.ctx, f.grad), TLC_ERR_UNSUPPORTED);
            require_status(tlc_residual_scale(f.ctx, 1.0f), TLC_ERR_UNSUPPORTED);
            require_refused(&f, NULL, f.cap, TLC_ERR_UNSUPPORTED);
        }
        require(written == 77 && all_bytes(f.dst, f.cap, FILL));
        require_same_state(f.ctx, &f.before);
        tear_down(&f);
    }
}

SETUP(print_isas)
