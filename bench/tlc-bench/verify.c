/* SPDX-License-Identifier: MIT
 *
 * verify.h lists the checks. The sums that they compare with are computed here, without the library.
 */
#include "verify.h"
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <threelc/stages.h>

/* A larger part of what was to be sent is not lost by rounding. */
#define SUM_ERROR_MAX 1e-5

enum { CHUNK = 1024 }; /* values that are converted at a time */

/* What is kept for one channel. */
typedef struct ledger {
    float *wide[2]; /* this step's gradient and decoded values in f32, where the dtype is another */
    float *before;  /* before this step: the residual, then the sum */
    double *got;    /* sum of the decoded values */
} ledger;

typedef struct pass {
    const channel *channels;
    ledger *ledgers;
    size_t count, steps;
    tlc_dtype dtype;
    const char *codec; /* NULL: a peer */
    codec_symbols symbols;
    bool checked_bits; /* the decoded bits must be the gradient's */
    frame_store *frames;
    verified *result;
    double wanted2, left2, grad2;     /* of one step: ||x||^2, ||x - decoded||^2, ||g||^2 */
    double step_errors, wanted_norms; /* sums over the steps */
    size_t steps_with_values;
    char *why; /* the caller's, or step_why: then the step is still to be named */
    char step_why[WHY_SIZE];
} pass;

/* A step of one channel in f32. */
typedef struct sent {
    const float *before; /* NULL without feedback */
    const float *grad, *decoded;
    size_t n, len;
} sent;

/* As in zlib: polynomial 0x04c11db7, reflected; crc is 0 at first. */
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

/* ---- one step of one channel ------------------------------------------------------------------------------------ */

static bool check_inspect(pass *p, const channel *c, size_t len, uint64_t nonzero, tlc_frame_info *info)
{
    tlc_status status;
    size_t bound;

    *info = (tlc_frame_info){.struct_size = sizeof *info};
    status = tlc_inspect(c->frame, len, info);
    if (status)
        return explain(p->why, "tlc_inspect: %s", tlc_status_string(status));
    if (info->n != c->tensor->n || info->dtype != p->dtype)
        return explain(p->why, "tlc_inspect gives another n or dtype");
    if (info->nonzero != TLC_UNKNOWN && info->nonzero != nonzero)
        return explain(p->why, "tlc_inspect gives another number of non-zero values");
    status = tlc_codec_bound(p->codec, p->dtype, c->tensor->n, &bound);
    if (status)
        return explain(p->why, "tlc_codec_bound: %s", tlc_status_string(status));
    if (len > c->bound || len > bound)
        return explain(p->why, "the frame is larger than its bound");
    return true;
}

/* Compares what was decoded to the dtype with what was decoded to f32. */
static bool check_narrowing(pass *p, const channel *c, const float *decoded)
{
    size_t size = dtype_size(p->dtype), n = c->tensor->n;
    unsigned char narrow[CHUNK * sizeof(float)];

    for (size_t i = 0; i < n; i += CHUNK) {
        size_t count = n - i < CHUNK ? n - i : CHUNK;
        tlc_convert(TLC_F32, decoded + i, p->dtype, narrow, count);
        if (memcmp(narrow, c->out + i * size, count * size) != 0)
            return explain(p->why, "decoding to the dtype differs from decoding to f32");
    }
    return true;
}

/* Decodes to the dtype and to f32. */
static bool decode(pass *p, const channel *c, const ledger *l, size_t step, sent *s)
{
    float *wide = l->wide[1];

    if (!channel_decompress(c, c->frame, s->len, p->dtype, c->out, p->why))
        return false;
    if (p->checked_bits && memcmp(c->out, tensor_step(c->tensor, step), s->n * dtype_size(p->dtype)) != 0)
        return explain(p->why, "the decoded bits are not the gradient's");
    s->decoded = wide ? wide : (const float *)(const void *)c->out;
    if (!wide)
        return true;
    return channel_decompress(c, c->frame, s->len, TLC_F32, wide, p->why) &&
           (p->checked_bits || check_narrowing(p, c, wide));
}

/* P6 in one step. x = r + g and r' = x - decoded are each rounded once, by at most 2^-24 of the result (and half the
 * least subnormal), and |r'| <= |x| + |decoded|. The .01 covers the rounding of these bounds. */
static bool check_balance(pass *p, const channel *c, const sent *s)
{
    const float *residual = channel_residual(c);

    for (size_t i = 0; residual && i < s->n; i++) {
        double x = (double)s->before[i] + (double)s->grad[i], d = (double)s->decoded[i];
        double rounding = (2 * fabs(x) + fabs(d)) * 0x1.01p-24 + 0x1p-148;
        if (!(fabs(d + (double)residual[i] - x) <= rounding))
            return explain(p->why, "decoded + residual is not the residual before + gradient at index %zu", i);
    }
    return true;
}

static uint64_t account(pass *p, const ledger *l, const sent *s)
{
    uint64_t nonzero = 0;

    for (size_t i = 0; i < s->n; i++) {
        double g = (double)s->grad[i], x = s->before ? (double)s->before[i] + g : g, d = (double)s->decoded[i];
        nonzero += d != 0;
        if (!isfinite(x))
            continue;
        p->wanted2 += x * x;
        p->left2 += (x - d) * (x - d);
        p->grad2 += g * g;
        l->got[i] += d;
    }
    return nonzero;
}

/* The sum so far moves to before, which the step no longer needs. */
static bool check_sum(pass *p, const channel *c, const ledger *l, const sent *s, bool has_zero)
{
    tlc_status status;

    memcpy(l->before, c->sum, s->n * sizeof *c->sum);
    status = tlc_decompress_add(c->frame, s->len, 1.0f, c->sum, s->n, &c->decode);
    if (status)
        return explain(p->why, "tlc_decompress_add: %s", tlc_status_string(status));
    for (size_t i = 0; i < s->n; i++) {
        float want = l->before[i];
        if (!has_zero || s->decoded[i] != 0)
            want += s->decoded[i];
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits, of which 0 and -0 differ */
        if (memcmp(&c->sum[i], &want, sizeof want) != 0 && !(isnan(c->sum[i]) && isnan(want)))
            return explain(p->why, "tlc_decompress_add gives another sum at index %zu", i);
    }
    return true;
}

/* The checks for codecs only: a peer has no tlc_inspect and no tlc_decompress_add. */
static bool check_frame(pass *p, const channel *c, const ledger *l, const sent *s, uint64_t nonzero)
{
    verified *v = p->result;
    tlc_frame_info info;

    if (!check_inspect(p, c, s->len, nonzero, &info) || !check_sum(p, c, l, s, info.nonzero != TLC_UNKNOWN))
        return false;
    v->clipped += info.clipped;
    if (p->symbols != SYMBOLS_OTHER)
        v->entropy_bits += codec_entropy(p->symbols, s->n, nonzero);
    return true;
}

static bool send_step(pass *p, const channel *c, const ledger *l, size_t step, sent *s)
{
    verified *v = p->result;
    uint64_t nonzero;

    if (!channel_compress(c, step, &s->len, p->why) || !decode(p, c, l, step, s) || !check_balance(p, c, s))
        return false;
    nonzero = account(p, l, s);
    v->nonzero += nonzero;
    v->frame_bytes += s->len;
    v->step_bytes[step] += s->len;
    v->crc = crc32(v->crc, c->frame, s->len);
    return (!p->codec || check_frame(p, c, l, s, nonzero)) && frames_append(p->frames, c->frame, s->len, p->why);
}

/* Nothing is sent, but the norms that errors are divided by grow. */
static bool accumulate_step(pass *p, const channel *c, size_t step, const sent *s)
{
    const float *residual = channel_residual(c);

    if (!channel_accumulate(c, step, p->why))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): what accumulates has a residual, so it was kept */
        float x = s->before[i] + s->grad[i];
        /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): bits */
        if (memcmp(&residual[i], &x, sizeof x) != 0)
            return explain(p->why, "tlc_accumulate gives another residual at index %zu", i);
        p->wanted2 += (double)x * (double)x;
        p->grad2 += (double)s->grad[i] * (double)s->grad[i];
    }
    return true;
}

static bool take_step(pass *p, const channel *c, const ledger *l, size_t step)
{
    const float *residual = channel_residual(c);
    sent s = {.n = c->tensor->n, .grad = l->wide[0] ? l->wide[0] : tensor_step(c->tensor, step)};

    if (l->wide[0])
        tlc_convert(p->dtype, tensor_step(c->tensor, step), TLC_F32, l->wide[0], s.n);
    if (residual)
        s.before = memcpy(l->before, residual, s.n * sizeof *l->before);
    p->result->values += s.n;
    return channel_sends(c, step) ? send_step(p, c, l, step, &s) : accumulate_step(p, c, step, &s);
}

/* ---- all steps -------------------------------------------------------------------------------------------------- */

static bool ledger_open(ledger *l, const channel *c, tlc_dtype dtype)
{
    size_t n = c->tensor->n;

    l->before = calloc(n + 1, sizeof *l->before);
    l->got = calloc(n + 1, sizeof *l->got);
    for (int i = 0; i < 2 && dtype != TLC_F32; i++) {
        l->wide[i] = calloc(n + 1, sizeof *l->wide[i]);
        if (!l->wide[i])
            return false;
    }
    for (size_t i = 0; i < n; i++)
        c->sum[i] = -0.0f; /* only a sum that stays untouched keeps this sign */
    return l->before && l->got;
}

static void ledgers_close(ledger *ledgers, size_t count)
{
    for (size_t i = 0; ledgers && i < count; i++) {
        free(ledgers[i].wide[0]);
        free(ledgers[i].wide[1]);
        free(ledgers[i].before);
        free(ledgers[i].got);
    }
    free(ledgers);
}

static bool send_all(pass *p)
{
    char *why = p->why;

    p->why = p->step_why;
    for (size_t step = 0; step < p->steps; step++) {
        p->wanted2 = p->left2 = p->grad2 = 0;
        for (size_t i = 0; i < p->count; i++) {
            if (!take_step(p, &p->channels[i], &p->ledgers[i], step))
                return explain(why, "%s, step %zu: %s", p->channels[i].tensor->name, step, p->step_why);
        }
        if (p->wanted2 > 0 && channel_sends(p->channels, step)) {
            p->step_errors += sqrt(p->left2 / p->wanted2);
            p->steps_with_values++;
        }
        p->wanted_norms += sqrt(p->wanted2);
        p->result->grad_norm += sqrt(p->grad2);
    }
    p->why = why;
    return true;
}

/* Sums over the steps of count values from i on. */
static void sum_gradients(const pass *p, const tensor *t, size_t i, size_t count, double sums[CHUNK])
{
    float values[CHUNK];

    memset(sums, 0, count * sizeof *sums);
    for (size_t step = 0; step < p->steps; step++) {
        const unsigned char *grad = tensor_step(t, step);
        tlc_convert(p->dtype, grad + i * dtype_size(p->dtype), TLC_F32, values, count);
        for (size_t k = 0; k < count; k++)
            sums[k] += isfinite(values[k]) ? (double)values[k] : 0;
    }
}

/* P6 over all steps: first residual + sum of gradients = sum of decoded + last residual. Where gradients cancel out,
 * the roundings may be more than SUM_ERROR_MAX of the sum. They are 2^-23 ||x|| a step; twice that is allowed. */
static bool check_total(pass *p)
{
    double given2 = 0, lost2 = 0, residual2 = 0, given[CHUNK];
    verified *v = p->result;

    for (size_t c = 0; c < p->count; c++) {
        const float *residual = channel_residual(&p->channels[c]);
        const float *start = p->channels[c].start;
        const tensor *t = p->channels[c].tensor;
        for (size_t i = 0; i < t->n; i++) {
            if (i % CHUNK == 0)
                sum_gradients(p, t, i, t->n - i < CHUNK ? t->n - i : CHUNK, given);
            double r = residual ? (double)residual[i] : 0, g = given[i % CHUNK] + (start ? (double)start[i] : 0);
            double lost = g - (p->ledgers[c].got[i] + r);
            given2 += g * g;
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
        return explain(p->why, "sum of decoded + residual differs from what was to be sent by %.3g of it",
                       v->sum_error);
    return true;
}

static start_kind start_of(const channel *channels, size_t count)
{
    size_t residuals = 0, recorded = 0;

    for (size_t i = 0; i < count; i++) {
        residuals += channel_residual(&channels[i]) != NULL;
        recorded += channels[i].start != NULL;
    }
    if (!residuals)
        return START_NO_RESIDUAL;
    return !recorded ? START_ZERO : recorded < residuals ? START_MIXED : START_RECORDED;
}

bool verify(const channel *channels, size_t count, tlc_dtype dtype, const channel_options *options, frame_store *frames,
            verified *result, char *why)
{
    pass p = {
        .channels = channels,
        .count = count,
        .steps = channel_steps(channels[0].tensor->steps, channels[0].delay),
        .dtype = dtype,
        .codec = options->codec,
        .frames = frames,
        .result = result,
        .why = why,
    };
    bool ok;

    *result = (verified){.isa = p.codec ? tlc_isa_used(channels[0].ctx) : TLC_ISA_AUTO};
    result->step_bytes = calloc(p.steps, sizeof *result->step_bytes);
    result->start = start_of(channels, count);
    result->feedback = result->start != START_NO_RESIDUAL;
    p.symbols = p.codec ? codec_symbols_of(p.codec) : SYMBOLS_OTHER;
    p.checked_bits = p.codec ? codec_is_raw(p.codec) && !result->feedback : options->peer->exact;
    /* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): there is a tensor, so count is not 0 */
    p.ledgers = calloc(count, sizeof *p.ledgers);
    ok = p.ledgers && result->step_bytes;
    for (size_t i = 0; ok && i < count; i++)
        ok = ledger_open(&p.ledgers[i], &channels[i], dtype);
    if (!ok)
        explain(why, "out of memory");
    ok = ok && send_all(&p) && check_total(&p);
    result->input_bytes = result->values * dtype_size(dtype);
    ledgers_close(p.ledgers, count);
    return ok;
}

void verified_free(verified *result)
{
    free(result->step_bytes);
    result->step_bytes = NULL;
}
