/* SPDX-License-Identifier: MIT
 *
 * P6: nothing is lost. The decoded values of all steps and the residual add up to the gradients, to rounding. Each
 * operation is off by at most half a unit in the last place of its result. So the limit for a value is 2^-24 of the sum
 * of the magnitudes of all its results. The sums here are binary64.
 */
#include "../support/support.h"
#include <math.h>

#define HALF_ULP 5.9604644775390625e-08 /* 2^-24 */

typedef struct ledger {
    tlc_ctx *ctx;
    tlc_dtype dtype;
    size_t n;
    double *given, *sent, *limit;
    float *before, *out;
    uint8_t *grad, *dst;
} ledger;

static ledger open_ledger(const tlc_config *cfg, size_t n)
{
    ledger l = {create(cfg, n), cfg->dtype, n,         calloc(n, 8), calloc(n, 8),
                calloc(n, 8),   floats(n),  floats(n), bytes(4 * n), NULL};

    l.dst = bytes(tlc_bound(l.ctx));
    at = (place){.codec = cfg->codec, .dtype = cfg->dtype, .isa = cfg->isa, .n = n, .note = at.note};
    require(l.given && l.sent && l.limit && tlc_residual(l.ctx));
    return l;
}

static void close_ledger(ledger *l)
{
    tlc_destroy(l->ctx);
    free(l->given);
    free(l->sent);
    free(l->limit);
    free(l->before);
    free(l->out);
    free(l->grad);
    free(l->dst);
}

static void convert(ledger *l, const float *gradient)
{
    memcpy(l->out, gradient, 4 * l->n);
    for (size_t i = 0; l->dtype == TLC_F16 && i < l->n; i++) /* not infinite */
        l->out[i] = fminf(fmaxf(gradient[i], -1000.0f), 1000.0f);
    require_status(tlc_convert(TLC_F32, l->out, l->dtype, l->grad, l->n), TLC_OK);
    memcpy(l->before, tlc_residual(l->ctx), 4 * l->n);
    for (size_t i = 0; i < l->n; i++) {
        double g = bits_float(widened(l->dtype, l->grad, i));
        l->given[i] += g;
        l->limit[i] += HALF_ULP * (fabs((double)l->before[i] + g) * (1 + HALF_ULP));
    }
}

static void local_step(ledger *l, const float *gradient)
{
    convert(l, gradient);
    require_status(tlc_accumulate(l->ctx, l->grad), TLC_OK);
}

/* gradient NULL: from the residual alone */
static void send_step(ledger *l, const float *gradient)
{
    size_t len;

    if (gradient)
        convert(l, gradient);
    len = compress(l->ctx, gradient ? l->grad : NULL, l->dst);
    require_status(tlc_decompress(l->dst, len, TLC_F32, l->out, l->n, NULL), TLC_OK);
    for (size_t i = 0; i < l->n; i++) {
        l->sent[i] += l->out[i];
        l->limit[i] += HALF_ULP * (double)fabsf(tlc_residual(l->ctx)[i]);
    }
}

static void scale(ledger *l, float factor)
{
    /* what was sent stays as it is; the scaled rest counts as newly given */
    require_status(tlc_residual_scale(l->ctx, factor), TLC_OK);
    for (size_t i = 0; i < l->n; i++) {
        l->given[i] = (l->given[i] - l->sent[i]) * factor + l->sent[i];
        l->limit[i] = l->limit[i] * factor + HALF_ULP * (double)fabsf(tlc_residual(l->ctx)[i]) + 1e-45;
    }
}

static void require_balanced(const ledger *l)
{
    for (size_t i = 0; i < l->n; i++) {
        double off = fabs(l->sent[i] + tlc_residual(l->ctx)[i] - l->given[i]);
        at.i = i;
        require(off <= l->limit[i] * (1 + 1e-9) + 1e-13 * fabs(l->given[i])); /* and rounding of these sums */
    }
}

/* ---- synthetic data ---------------------------------------------------------------------------------------------- */

TEST(p6_every_codec)
{
    size_t n = quick() ? 499 : 5003;
    float *g = floats(n);

    FOR_EACH_CODEC(c)
        FOR_EACH_DTYPE(dtype)
            FOR_EACH_ISA(isa) {
                tlc_config cfg = config(c->text, dtype, isa);
                cfg.feedback = 1;
                ledger l = open_ledger(&cfg, n);
                for (uint64_t step = 0; step < 20; step++) {
                    fill((data_kind)(step < DATA_COUNT ? step
                                     : step % 5 == 4   ? DATA_SPARSE
                                                       : DATA_LAPLACE),
                         step, g, n);
                    send_step(&l, g);
                }
                send_step(&l, NULL);
                require_balanced(&l);
                close_ledger(&l);
            }
    free(g);
}

/* 2 local steps; Sparse Binary Compression's delays. */
TEST(p6_local_steps)
{
    static const size_t delays[] = {2, 10, 100};
    size_t n = quick() ? 499 : 2003;
    float *g = floats(n);

    FOR_EACH_CODEC(c)
        for (size_t d = 0; d < COUNT(delays); d++) {
            tlc_config cfg = config(c->text, dtypes[d], TLC_ISA_AUTO);
            cfg.feedback = 1;
            ledger l = open_ledger(&cfg, n);
            for (uint64_t step = 1; step <= 2 * delays[d] + 1; step++) {
                fill(step % 4 == 1 ? DATA_TIES : DATA_LAPLACE, step, g, n);
                if (step % delays[d] == 0)
                    send_step(&l, g);
                else
                    local_step(&l, g);
            }
            require_balanced(&l);
            send_step(&l, NULL);
            require_balanced(&l);
            close_ledger(&l);
        }
    free(g);
}

/* Any codec after any other, and another scale of the residual. */
TEST(p6_schedules)
{
    size_t n = quick() ? 499 : 5003;
    float *g = floats(n);

    FOR_EACH_DTYPE(dtype) {
        tlc_config cfg = config("raw", dtype, TLC_ISA_AUTO);
        cfg.feedback = 1;
        cfg.reserve = reserve_all();
        ledger l = open_ledger(&cfg, n);
        for (size_t step = 0; step < codec_count * codec_count; step++) {
            size_t c = (step / codec_count + step % codec_count * (step / codec_count + 1)) % codec_count;
            at.codec = codecs[c].text;
            require_status(tlc_set_codec(l.ctx, codecs[c].text), TLC_OK);
            fill(DATA_LAPLACE, step, g, n);
            send_step(&l, g);
            if (step % 7 == 3)
                scale(&l, step % 2 ? 0.3f : 2.5f);
        }
        require_balanced(&l);
        close_ledger(&l);
    }
    free(g);
}

/* ---- real gradients ---------------------------------------------------------------------------------------------- */

/* From the residual of the run, which is given as the first gradient. */
static void on_trace(const trace *t)
{
    size_t turn = 0;

    FOR_EACH_CODEC(c) {
        tlc_config cfg = config(c->text, dtypes[turn % 3], TLC_ISA_AUTO);
        if (!c->feedback || (quick() && c != codecs))
            continue;
        at.note = t->name;
        ledger l = open_ledger(&cfg, t->cols);
        require(t->rows >= 16);
        local_step(&l, t->residual);
        for (size_t row = 0; row < t->rows; row++)
            if (turn % 2 && row % 2) /* two local steps */
                local_step(&l, t->values + row * t->cols);
            else
                send_step(&l, t->values + row * t->cols);
        require_balanced(&l);
        close_ledger(&l);
        turn++;
    }
    at.note = NULL;
}

TEST(p6_real_traces)
{
    if (!each_trace(on_trace))
        skip_test("TLC_TEST_DATA names no folder of runs");
}

SETUP(print_isas)
