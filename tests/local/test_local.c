/* SPDX-License-Identifier: MIT
 *
 * threelc/local.h: its arithmetic against fmaf() of the C library, in every float mode, at any address; what is refused
 * changes nothing; and rounds over an all-reduce. (The bits of LocalSteps: tests/python/test_local_c.py.)
 */
#include "../support/float_modes.h"
#include "../support/support.h"
#include <math.h>
#include <threelc/exchange.h>
#include <threelc/local.h>

enum { N = 2500 };

/* Numbers of all magnitudes, subnormal ones and zeros too. */
static float any_float(rng *r)
{
    for (;;) {
        uint32_t bits = (uint32_t)rng_next(r);
        if (!rng_below(r, 8))
            bits &= 0x807fffffu; /* subnormal */
        if (!rng_below(r, 8))
            bits &= 0xffff0000u; /* products with few bits: ties */
        if ((bits & 0x7fffffffu) < 0x7f800000u)
            return bits_float(bits);
    }
}

static tlc_local_config plain(void)
{
    tlc_local_config cfg;

    require_status(tlc_local_config_init(&cfg, sizeof cfg), TLC_OK);
    return cfg;
}

static tlc_local_tensor tensor_of(float *common, float *momentum, const float *residual, void *weights, size_t n)
{
    tlc_local_tensor t;

    require_status(tlc_local_tensor_init(&t, sizeof t), TLC_OK);
    t.n = n;
    t.common = common;
    t.momentum = momentum;
    t.residual = residual;
    t.weights = weights;
    return t;
}

static int same_floats(const float *a, const float *b, size_t n)
{
    return same(a, b, n * sizeof *a);
}

TEST(local_products_are_rounded_once)
{
    static float common[N], mean[N], want[N];
    tlc_local_config cfg = plain();
    tlc_local_tensor t = tensor_of(common, NULL, NULL, NULL, N);
    rng r = {7};

    for (int turn = 0; turn < (quick() ? 20 : 200); turn++) {
        cfg.rate = any_float(&r);
        for (size_t i = 0; i < N; i++) {
            mean[i] = any_float(&r);
            common[i] = any_float(&r);
            if (i % 4 == 0) /* near the product, so that much cancels */
                common[i] = nextafterf(-(cfg.rate * mean[i]), i % 8 ? 1e38f : -1e38f);
            if (!isfinite(common[i]))
                common[i] = 1;
            want[i] = fmaf(mean[i], cfg.rate, common[i]);
        }
        require_status(tlc_local_outer(&cfg, &t, mean), TLC_OK);
        require(same_floats(common, want, N));
    }
}

/* A round, computed once more from the comments of the header. */
typedef struct round {
    float common[N], momentum[N], residual[N], mean[N], change[N], local[N];
    uint8_t weights[4 * N + 1];
} round_data;

static void fill_round(round_data *r, tlc_dtype dtype)
{
    fill(DATA_LAPLACE, 1, r->common, N);
    fill(DATA_LAPLACE, 2, r->momentum, N);
    fill(DATA_LAPLACE, 3, r->residual, N);
    fill(DATA_LAPLACE, 4, r->mean, N);
    fill(DATA_LAPLACE, 5, r->local, N);
    require_status(tlc_convert(TLC_F32, r->local, dtype, r->weights + 1, N), TLC_OK);
    require_status(tlc_convert(dtype, r->weights + 1, TLC_F32, r->local, N), TLC_OK);
}

static float rounded(float x, tlc_dtype dtype)
{
    uint8_t narrow[4];

    require_status(tlc_convert(TLC_F32, &x, dtype, narrow, 1), TLC_OK);
    require_status(tlc_convert(dtype, narrow, TLC_F32, &x, 1), TLC_OK);
    return x;
}

static void check_round(const tlc_local_config *cfg, tlc_dtype dtype, int has_residual, float_mode mode)
{
    static round_data r, was;
    tlc_local_tensor t = tensor_of(r.common, r.momentum, has_residual ? r.residual : NULL, r.weights + 1, N);
    tlc_status status[3];
    float start;

    t.dtype = dtype;
    fill_round(&r, dtype);
    was = r;
    (void)mode_around(mode, 1);
    status[0] = tlc_local_change(cfg, &t, r.change);
    status[1] = tlc_local_outer(cfg, &t, r.mean);
    status[2] = tlc_local_start(cfg, &t);
    require(mode_around(mode, 0));
    for (int i = 0; i < 3; i++)
        require_status(status[i], TLC_OK);
    for (size_t i = 0; i < N; i++) {
        const float share = has_residual ? cfg->error_reset : 0;
        volatile float kept = was.momentum[i] * cfg->momentum, moved = kept + was.mean[i];
        float move = cfg->momentum > 0 ? moved : was.mean[i], local = was.local[i];

        start = rounded(fmaf(was.residual[i], share, was.common[i]), dtype);
        require(float_bits(r.change[i]) == float_bits(local - start));
        if (cfg->momentum > 0) {
            require(float_bits(r.momentum[i]) == float_bits(moved));
            if (cfg->nesterov)
                move = fmaf(moved, cfg->momentum, was.mean[i]);
        }
        const float common = fmaf(move, cfg->rate, was.common[i]);
        require(float_bits(r.common[i]) == float_bits(common));
        start = fmaf(was.residual[i], share, common);
        volatile float way = local - start;
        if (cfg->mix > 0)
            start = cfg->mix < 0.5f ? fmaf(way, cfg->mix, start) : fmaf(-way, 1 - cfg->mix, local);
        require_status(tlc_convert(dtype, r.weights + 1 + i * dtype_size[dtype], TLC_F32, &local, 1), TLC_OK);
        require(float_bits(local) == float_bits(rounded(start, dtype)));
    }
    require(same_floats(r.residual, was.residual, N) && same_floats(r.mean, was.mean, N) &&
            r.weights[0] == was.weights[0]);
}

TEST(local_rounds_are_as_the_header_says)
{
    static const tlc_local_config settings[] = {
        {.struct_size = sizeof settings[0], .rate = 1, .error_reset = 1},
        {.struct_size = sizeof settings[0], .rate = 0.7f, .momentum = 0.9f, .nesterov = 1},
        {.struct_size = sizeof settings[0], .rate = 0.3f, .momentum = 0.8f, .error_reset = 0.6f, .mix = 0.3f},
        {.struct_size = sizeof settings[0], .rate = -1.1f, .error_reset = 1, .mix = 0.7f},
    };

    for (size_t s = 0; s < COUNT(settings); s++)
        FOR_EACH_DTYPE(dtype)
            for (float_mode mode = MODE_DEFAULT; mode < MODE_COUNT; mode++)
                if (has_mode(mode))
                    check_round(&settings[s], dtype, (int)(s + dtype) % 2, mode);
}

/* With nothing learned nothing changes, whatever the dtype rounds away. */
TEST(local_starts_have_no_change)
{
    static round_data r;
    tlc_local_config cfg = plain();

    FOR_EACH_DTYPE(dtype) {
        tlc_local_tensor t = tensor_of(r.common, NULL, r.residual, r.weights + 1, N);
        t.dtype = dtype;
        fill_round(&r, dtype);
        require_status(tlc_local_start(&cfg, &t), TLC_OK);
        require_status(tlc_local_change(&cfg, &t, r.change), TLC_OK);
        for (size_t i = 0; i < N; i++)
            require(!(r.change[i] < 0) && !(r.change[i] > 0));
    }
}

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refused(const tlc_local_config *cfg, const tlc_local_tensor *t, int outer_only)
{
    static float change[N];
    static uint8_t before[2][4 * N];

    if (t && t->common)
        memcpy(before[0], t->common, sizeof(float) * N);
    if (t && t->weights)
        memcpy(before[1], t->weights, sizeof(float) * N);
    change[0] = 5;
    if (!outer_only) {
        require_status(tlc_local_change(cfg, t, change), TLC_ERR_PARAM);
        require_status(tlc_local_start(cfg, t), TLC_ERR_PARAM);
    }
    require_status(tlc_local_outer(cfg, t, change), TLC_ERR_PARAM);
    require(change[0] > 4 && change[0] < 6);
    require(!t || !t->common || same(before[0], t->common, sizeof(float) * N));
    require(!t || !t->weights || same(before[1], t->weights, sizeof(float) * N));
}

TEST(local_arguments_that_are_refused)
{
    static float common[N], weights[N];
    tlc_local_config cfg = plain();
    tlc_local_tensor t = tensor_of(common, NULL, NULL, weights, N);
    const float huge = INFINITY, none = NAN;

    fill(DATA_LAPLACE, 1, common, N);
    refused(NULL, &t, 0);
    refused(&cfg, NULL, 0);
#define REFUSED(of, field, bad, outer_only)                                                                            \
    do {                                                                                                               \
        const __typeof__((of).field) good_ = (of).field;                                                               \
        (of).field = bad;                                                                                              \
        refused(&cfg, &t, outer_only);                                                                                 \
        (of).field = good_;                                                                                            \
    } while (0)
    REFUSED(cfg, struct_size, sizeof(size_t) - 1, 0);
    REFUSED(cfg, rate, huge, 0);
    REFUSED(cfg, rate, none, 0);
    REFUSED(cfg, momentum, 1, 0);
    REFUSED(cfg, momentum, -0.1f, 0);
    REFUSED(cfg, momentum, none, 0);
    REFUSED(cfg, momentum, 0.5f, 1); /* the tensor has none */
    REFUSED(cfg, nesterov, 1, 0);    /* without a momentum */
    REFUSED(cfg, nesterov, 2, 0);
    REFUSED(cfg, error_reset, 1.1f, 0);
    REFUSED(cfg, error_reset, -1, 0);
    REFUSED(cfg, error_reset, none, 0);
    REFUSED(cfg, mix, 1, 0);
    REFUSED(cfg, mix, -0.5f, 0);
    REFUSED(cfg, mix, none, 0);
    REFUSED(t, struct_size, sizeof(size_t) - 1, 0);
    REFUSED(t, common, NULL, 0);
    REFUSED(t, dtype, TLC_U8, 0);
    require_status(tlc_local_change(&cfg, &t, NULL), TLC_ERR_PARAM);
    require_status(tlc_local_outer(&cfg, &t, NULL), TLC_ERR_PARAM);
    t.weights = NULL;
    require_status(tlc_local_change(&cfg, &t, common), TLC_ERR_PARAM);
    require_status(tlc_local_start(&cfg, &t), TLC_ERR_PARAM);
    t = tensor_of(NULL, NULL, NULL, NULL, 0);
    require_status(tlc_local_change(&cfg, &t, NULL), TLC_OK);
    require_status(tlc_local_outer(&cfg, &t, NULL), TLC_OK);
    require_status(tlc_local_start(&cfg, &t), TLC_OK);
}

/* ---- a training -------------------------------------------------------------------------------------------------- */

enum { RANKS = 2, ROUNDS = 60, STEPS = 4 };

/* Two ranks want other weights each; the model of both comes to the mean of these, and is the same on both. */
TEST(local_rounds_reach_what_both_ranks_want)
{
    static float weights[RANKS][N], common[RANKS][N], momentum[RANKS][N], residual[RANKS][N], change[RANKS][N],
        wish[RANKS][N];
    tlc_local_config cfg = plain();
    tlc_local_tensor local[RANKS];
    tlc_allreduce *object[RANKS];
    tlc_message to[RANKS][RANKS], from[RANKS];
    tlc_exchange_config exchange;
    tlc_tensor tensor;

    cfg.rate = 0.7f;
    cfg.momentum = 0.6f;
    cfg.nesterov = 1;
    require_status(tlc_exchange_config_init(&exchange, sizeof exchange), TLC_OK);
    exchange.workers = RANKS;
    exchange.gather = 1;
    exchange.push = "topk:p=0.3+golomb";
    require_status(tlc_tensor_init(&tensor, sizeof tensor), TLC_OK);
    tensor.name = "weights";
    tensor.n = N;
    for (uint32_t i = 0; i < RANKS; i++) {
        fill(DATA_LAPLACE, i + 1, wish[i], N);
        tensor.residual = residual[i];
        require_status(tlc_allreduce_create(&object[i], &exchange, i, &tensor, 1), TLC_OK);
        local[i] = tensor_of(common[i], momentum[i], residual[i], weights[i], N);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            for (int step = 0; step < STEPS; step++)
                for (size_t k = 0; k < N; k++)
                    weights[i][k] += 0.05f * (wish[i][k] - weights[i][k]);
            require_status(tlc_local_change(&cfg, &local[i], change[i]), TLC_OK);
            require_status(tlc_allreduce_push(object[i], (const void *[]){change[i]}, 1, to[i]), TLC_OK);
        }
        for (uint32_t i = 0; i < RANKS; i++)
            from[i] = to[i][0];
        for (uint32_t i = 0; i < RANKS; i++) {
            require_status(tlc_allreduce_pull(object[i], from, (void *[]){change[i]}), TLC_OK);
            require_status(tlc_local_outer(&cfg, &local[i], change[i]), TLC_OK);
            require_status(tlc_local_start(&cfg, &local[i]), TLC_OK);
        }
        require(same_floats(common[0], common[1], N) && same_floats(momentum[0], momentum[1], N));
    }
    double error = 0, size = 0;
    for (size_t k = 0; k < N; k++) {
        const double want = ((double)wish[0][k] + wish[1][k]) / 2, off = common[0][k] - want;
        error += off * off;
        size += want * want;
    }
    require(error < 0.02 * size);
    for (uint32_t i = 0; i < RANKS; i++)
        tlc_allreduce_destroy(object[i]);
}
