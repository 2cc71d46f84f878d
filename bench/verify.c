/* SPDX-License-Identifier: MIT
 *
 * What is checked is listed in verify.h. The sums that the checks compare with are this file's own.
 */
#include "verify.h"
#include "explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/stages.h>

/* Beyond this part of ||sum of g|| the lost sum is no rounding. */
#define SUM_ERROR_MAX 1e-5

/* What is kept of one channel. */
typedef struct ledger {
    float *grad;         /* this step's gradient */
    float *before;       /* the residual before this step; 0 without feedback */
    float *decoded;      /* this step's values */
    float *sum;          /* of the decoded values, added as tlc_decompress_add must add them */
    double *given, *got; /* sums of gradients, of decoded values */
} ledger;

typedef struct pass {
    const channel *channels;
    ledger *ledgers;
    size_t count, steps;
    tlc_dtype dtype;
    const char *codec;
    bool raw, checked_bits; /* checked_bits: raw, so the gradient's bits must come back */
    tlc_decode_options decode;
    frame_store *frames;
    verified *result;
    double wanted2, left2, grad2;         /* of one step: ||x||^2, ||x - decoded||^2, ||g||^2 */
    double step_errors, wanted_norms;     /* sums over the steps */
    size_t steps_with_values;
    char *why;
} pass;

static bool is_raw(const char *codec)
{
    return !strncmp(codec, "raw", 3) && (codec[3] == '\0' || codec[3] == ':');
}

bool codec_takes_nonfinite(const char *codec, int feedback)
{
    return is_raw(codec) && feedback != 1;
}

/* zlib's: polynomial 0x04c11db7, reflected; crc is 0 at first. */
static uint32_t crc32(uint32_t crc, const unsigned char *bytes, size_t len)
{
    crc = ~crc;
    while (len--) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static double quotient(double a, double b)
{
    return b > 0 ? a / b : a > 0 ? INFINITY : NAN;
}

/* ---- one step of one channel -------------------------------------------------------------------------------------- */

static bool check_inspect(pass *p, const channel *c, size_t len, uint64_t nonzero)
{
    tlc_frame_info info = {.struct_size = sizeof info};
    tlc_status status = tlc_inspect(c->frame, len, &info);
    size_t bound;

    if (status)
        return explain(p->why, "tlc_inspect: %s", tlc_status_string(status));
    if (info.n != c->tensor->n || info.dtype != p->dtype)
        return explain(p->why, "tlc_inspect gives another n or dtype");
    if (info.nonzero != TLC_UNKNOWN && info.nonzero != nonzero)
        return explain(p->why, "tlc_inspect gives another number of non-zero values");
    status = tlc_codec_bound(p->codec, p->dtype, c->tensor->n, &bound);
    if (status)
        return explain(p->why, "tlc_codec_bound: %s", tlc_status_string(status));
    if (len > c->bound || len > bound)
        return explain(p->why, "the frame is larger than its bound");
    return true;
}

/* Decodes to f32 and to the dtype. */
static bool check_decoding(pass *p, const channel *c, ledger *l, size_t step, size_t len)
{
    size_t n = c->tensor->n, size = n * dtype_size(p->dtype);
    tlc_status status = tlc_decompress(c->frame, len, TLC_F32, l->decoded, n, &p->decode);

    if (!status)
        status = tlc_decompress(c->frame, len, p->dtype, c->out, n, &p->decode);
    if (status)
        return explain(p->why, "tlc_decompress: %s", tlc_status_string(status));
    if (p->checked_bits) {
        if (memcmp(c->out, tensor_step(c->tensor, step), size) != 0)
            return explain(p->why, "the decoded bits are not the gradient's");
        return true;
    }
    /* c->sum is free until check_sum fills it */
    tlc_convert(l->decoded, TLC_F32, c->sum, p->dtype, n);
    if (memcmp(c->out, c->sum, size) != 0)
        return explain(p->why, "decoding to the dtype differs from decoding to f32");
    return true;
}

/* tlc_decompress_add on a copy of the sum so far, which must give the sum after this step. */
static bool check_sum(pass *p, const channel *c, ledger *l, size_t len)
{
    size_t n = c->tensor->n;
    tlc_status status;

    memcpy(c->sum, l->sum, n * sizeof *l->sum);
    status = tlc_decompress_add(c->frame, len, 1.0f, c->sum, n, &p->decode);
    if (status)
        return explain(p->why, "tlc_decompress_add: %s", tlc_status_string(status));
    for (size_t i = 0; i < n; i++) {
        if (p->raw || l->decoded[i] != 0)
            l->sum[i] += l->decoded[i];
        if (memcmp(&c->sum[i], &l->sum[i], sizeof l->sum[i]) != 0 && !(isnan(c->sum[i]) && isnan(l->sum[i])))
            return explain(p->why, "tlc_decompress_add gives another sum at index %zu", i);
    }
    return true;
}

/* P6 in one step. x = r + g and r' = x - decoded are rounded once each: by at most 2^-24 of the result
 * (and half the least subnormal), and |r'| <= |x| + |decoded|; the .01 is for the roundings of these bounds. */
static bool check_balance(pass *p, const channel *c, const ledger *l)
{
    const float *residual = tlc_residual(c->ctx);

    for (size_t i = 0; residual && i < c->tensor->n; i++) {
        double x = (double)l->before[i] + (double)l->grad[i], d = (double)l->decoded[i];
        double rounding = (2 * fabs(x) + fabs(d)) * 0x1.01p-24 + 0x1p-148;
        if (!(fabs(d + (double)residual[i] - x) <= rounding))
            return explain(p->why, "decoded + residual is not the residual before + gradient at index %zu", i);
    }
    return true;
}

static uint64_t account(pass *p, const channel *c, ledger *l)
{
    uint64_t nonzero = 0;

    for (size_t i = 0; i < c->tensor->n; i++) {
        double g = (double)l->grad[i], x = (double)l->before[i] + g, d = (double)l->decoded[i];
        nonzero += d != 0;
        if (!isfinite(x))
            continue;
        p->wanted2 += x * x;
        p->left2 += (x - d) * (x - d);
        p->grad2 += g * g;
        l->given[i] += g;
        l->got[i] += d;
    }
    return nonzero;
}

static bool send_step(pass *p, const channel *c, ledger *l, size_t step)
{
    const float *residual = tlc_residual(c->ctx);
    size_t n = c->tensor->n, len = 0;
    uint64_t nonzero;
    tlc_status status;

    tlc_convert(tensor_step(c->tensor, step), p->dtype, l->grad, TLC_F32, n);
    if (residual)
        memcpy(l->before, residual, n * sizeof *l->before);
    status = tlc_compress(c->ctx, tensor_step(c->tensor, step), c->frame, c->bound, &len);
    if (status)
        return explain(p->why, "tlc_compress: %s", tlc_status_string(status));
    if (!check_decoding(p, c, l, step, len) || !check_sum(p, c, l, len) || !check_balance(p, c, l))
        return false;
    nonzero = account(p, c, l);
    p->result->nonzero += nonzero;
    p->result->values += n;
    p->result->frame_bytes += len;
    p->result->crc = crc32(p->result->crc, c->frame, len);
    return check_inspect(p, c, len, nonzero) && frames_append(p->frames, c->frame, len, p->why);
}

/* ---- all steps ---------------------------------------------------------------------------------------------------- */

static bool ledger_open(ledger *l, size_t n)
{
    l->grad = calloc(n + 1, sizeof *l->grad);
    l->before = calloc(n + 1, sizeof *l->before);
    l->decoded = calloc(n + 1, sizeof *l->decoded);
    l->sum = calloc(n + 1, sizeof *l->sum);
    l->given = calloc(n + 1, sizeof *l->given);
    l->got = calloc(n + 1, sizeof *l->got);
    if (!l->grad || !l->before || !l->decoded || !l->sum || !l->given || !l->got)
        return false;
    for (size_t i = 0; i < n; i++)
        l->sum[i] = -0.0f; /* only a sum that stays untouched keeps this sign */
    return true;
}

static void ledgers_close(ledger *ledgers, size_t count)
{
    for (size_t i = 0; ledgers && i < count; i++) {
        free(ledgers[i].grad);
        free(ledgers[i].before);
        free(ledgers[i].decoded);
        free(ledgers[i].sum);
        free(ledgers[i].given);
        free(ledgers[i].got);
    }
    free(ledgers);
}

static bool send_all(pass *p)
{
    char reason[WHY_SIZE];
    char *why = p->why;

    p->why = reason;
    for (size_t step = 0; step < p->steps; step++) {
        p->wanted2 = p->left2 = p->grad2 = 0;
        for (size_t i = 0; i < p->count; i++) {
            if (!send_step(p, &p->channels[i], &p->ledgers[i], step))
                return explain(why, "%s: %s, step %zu: %s", p->codec, p->channels[i].tensor->name, step, reason);
        }
        if (p->wanted2 > 0) {
            p->step_errors += sqrt(p->left2 / p->wanted2);
            p->steps_with_values++;
        }
        p->wanted_norms += sqrt(p->wanted2);
        p->result->grad_norm += sqrt(p->grad2);
    }
    p->why = why;
    return true;
}

/* P6 over all steps. Where the gradients cancel out, the roundings of the steps may be more than SUM_ERROR_MAX of what is
 * left: they are 2^-23 ||x|| a step, twice that is allowed. */
static bool check_total(pass *p)
{
    double given2 = 0, lost2 = 0, residual2 = 0;
    verified *v = p->result;

    for (size_t c = 0; c < p->count; c++) {
        const float *residual = tlc_residual(p->channels[c].ctx);
        const ledger *l = &p->ledgers[c];
        for (size_t i = 0; i < p->channels[c].tensor->n; i++) {
            double r = residual ? (double)residual[i] : 0, lost = l->given[i] - (l->got[i] + r);
            given2 += l->given[i] * l->given[i];
            lost2 += lost * lost;
            residual2 += r * r;
        }
    }
    v->sum_error = quotient(sqrt(lost2), sqrt(given2));
    v->residual_norm = sqrt(residual2);
    v->grad_norm /= (double)p->steps;
    v->step_error = quotient(p->step_errors, (double)p->steps_with_values);
    if (p->steps_with_values && p->step_errors == 0)
        v->step_error = 0;
    if (v->feedback && sqrt(lost2) > SUM_ERROR_MAX * sqrt(given2) && sqrt(lost2) > 0x1p-22 * p->wanted_norms)
        return explain(p->why, "%s: sum of decoded + residual misses the sum of the gradients by %.3g of it", p->codec,
                       v->sum_error);
    return true;
}

bool verify(const channel *channels, size_t count, tlc_dtype dtype, const char *codec, const channel_options *options,
            frame_store *frames, verified *result, char *why)
{
    pass p = {
        .channels = channels, .count = count, .steps = channels[0].tensor->steps, .dtype = dtype, .codec = codec,
        .decode = {.struct_size = sizeof p.decode, .isa = options->isa}, .frames = frames, .result = result, .why = why,
    };
    bool ok;

    *result = (verified){.isa = tlc_isa_used(channels[0].ctx)};
    for (size_t i = 0; i < count; i++)
        result->feedback = result->feedback || tlc_residual(channels[i].ctx);
    p.raw = is_raw(codec);
    p.checked_bits = p.raw && !result->feedback;
    p.ledgers = calloc(count, sizeof *p.ledgers);
    ok = p.ledgers != NULL;
    for (size_t i = 0; ok && i < count; i++)
        ok = ledger_open(&p.ledgers[i], channels[i].tensor->n);
    if (!ok)
        explain(why, "%s: out of memory", codec);
    ok = ok && send_all(&p) && check_total(&p);
    result->input_bytes = result->values * dtype_size(dtype);
    ledgers_close(p.ledgers, count);
    return ok;
}
