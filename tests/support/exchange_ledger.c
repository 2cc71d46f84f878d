/* SPDX-License-Identifier: MIT */
#include "exchange_ledger.h"
#include <float.h>
#include <math.h>

#define HALF_ULP 5.9604644775390625e-08   /* 2^-24 */
#define DOUBLE_ULP 4.4408920985006262e-16 /* 2^-51: more than two sums in binary64 are off by */
#define TAKEN 8                           /* bytes: for up to 64 workers */
#define LEAST 1e-44                       /* more than the error of a subnormal result */

static double *sums(size_t n)
{
    double *p = (double *)(void *)bytes(n * sizeof *p);

    for (size_t i = 0; i < n; i++)
        p[i] = 0;
    return p;
}

/* Which owner has which values. */
static void find_owners(ledger *l)
{
    for (uint32_t o = 0; o < l->f->owners; o++)
        for (size_t i = 0; i < member_parts(l->f->owner[o]); i++) {
            tlc_part part = member_part(l->f->owner[o], i);
            for (size_t k = 0; k < part.n; k++)
                l->owner[l->begin[part.tensor] + part.first + k] = o;
        }
}

void ledger_open(ledger *l, fleet *f)
{
    *l = (ledger){.f = f};
    require(f->residual != NULL);
    for (size_t t = 0; t < TENSORS; t++)
        l->begin[t + 1] = l->begin[t] + f->tensors[t].n;
    l->values = l->begin[TENSORS];
    l->worker = (worker_book *)(void *)bytes(f->workers * sizeof *l->worker);
    for (uint32_t w = 0; w < f->workers; w++)
        l->worker[w] = (worker_book){sums(l->values), sums(l->values), sums(l->values),
                                     sums(l->values), sums(l->values), 0,
                                     bytes(f->lanes)};
    l->owner = (uint32_t *)(void *)bytes(l->values * sizeof *l->owner);
    memset(l->owner, 0, l->values * sizeof *l->owner);
    l->given = sums(l->values);
    l->sent = sums(l->values);
    l->limit = sums(l->values);
    l->value = sums(l->values);
    l->frame = sums(l->values);
    l->error = sums(l->values);
    l->ok = bytes(f->lanes);
    memset(l->ok, 0, f->lanes);
    find_owners(l);
}

void ledger_close(ledger *l)
{
    for (uint32_t w = 0; w < l->f->workers; w++) {
        worker_book *b = &l->worker[w];
        void *arrays[] = {b->given, b->taken, b->limit, b->frame, b->error, b->counts};
        for (size_t i = 0; i < COUNT(arrays); i++)
            free(arrays[i]);
    }
    void *arrays[] = {l->worker, l->owner, l->given, l->sent, l->limit, l->value, l->frame, l->error, l->ok};
    for (size_t i = 0; i < COUNT(arrays); i++)
        free(arrays[i]);
}

static int sends(const ledger *l, uint32_t w, size_t t)
{
    return is_sent(&l->f->tensors[t], w);
}

static const float *residual(const ledger *l, uint32_t w, size_t t)
{
    return l->f->residual[w * TENSORS + t];
}

/* How far a result may be off because it was narrowed: 8 or 11 bits are left of it, or less if it is tiny. */
static double narrowing(const fleet *f, double value)
{
    return f->cfg.dtype == TLC_F32   ? 0
           : f->cfg.dtype == TLC_F16 ? fabs(value) * 0x1p-11 + 0x1p-25
                                     : fabs(value) * 0x1p-8 + LEAST;
}

static double result(const fleet *f, uint32_t w, size_t t, size_t k)
{
    return (double)bits_float(widened(f->cfg.dtype, f->out[w * TENSORS + t], k));
}

/* Adds a value to a sum. */
static void enter(double *sum, double value, double *limit)
{
    *sum += value;
    *limit += DOUBLE_ULP * (fabs(*sum) + fabs(value));
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

/* x = r + g is rounded, and r' = x - frame. */
static void book_push(ledger *l, uint32_t w, const float *before)
{
    worker_book *b = &l->worker[w];

    for (size_t t = 0; t < TENSORS; t++)
        for (size_t k = 0; sends(l, w, t) && k < l->f->tensors[t].n; k++) {
            size_t i = l->begin[t] + k;
            double g = (double)fleet_grad(l->f, w, t, k), x = (double)before[i] + g;
            double after = (double)residual(l, w, t)[k];
            enter(&b->given[i], g, &b->limit[i]);
            b->frame[i] = x - after;
            b->error[i] = HALF_ULP * (fabs(x) + fabs(after)) * (1 + HALF_ULP) + LEAST;
        }
}

static double larger(double a, double b)
{
    return fabs(b) <= DBL_MAX && fabs(b) > a ? fabs(b) : a; /* not NaN, not infinite */
}

/* A dropped gradient was taken out of the residuals again. That is as good as the largest value of the tensor: x, r',
 * r' + frame and the last difference are rounded, and none is larger than 4 of it. */
static void book_drop(ledger *l, uint32_t w, const float *before)
{
    worker_book *b = &l->worker[w];

    for (size_t t = 0; t < TENSORS; t++) {
        double r = 0, g = 0;
        for (size_t k = 0; sends(l, w, t) && k < l->f->tensors[t].n; k++) {
            r = larger(r, (double)before[l->begin[t] + k]);
            g = larger(g, (double)fleet_grad(l->f, w, t, k));
        }
        for (size_t k = 0; sends(l, w, t) && k < l->f->tensors[t].n; k++)
            b->limit[l->begin[t] + k] += 16 * HALF_ULP * (r + g) + LEAST;
    }
}

tlc_status ledger_push(ledger *l, uint32_t w)
{
    worker_book *b = &l->worker[w];
    float *before = floats(l->values);

    for (size_t t = 0; t < TENSORS; t++)
        memcpy(before + l->begin[t], residual(l, w, t), l->f->tensors[t].n * sizeof *before);
    b->step = member_step(l->f->worker[w]);
    memset(b->counts, 0, l->f->lanes);
    for (size_t i = 0; i < l->values; i++)
        b->frame[i] = b->error[i] = 0;
    require_status(fleet_push_one(l->f, w), TLC_OK);
    if (member_outcome(l->f->worker[w], 0).cause)
        book_drop(l, w, before);
    else if (!l->f->absent[w])
        book_push(l, w, before);
    free(before);
    return TLC_OK;
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

static int bit(const uint8_t *bits, uint32_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/* The weighted sum of the frames that took part, value i of tensor t. *error: a factor, a product and each sum are
 * rounded, and the frames are off as their books say. */
static double sum_frames(const ledger *l, const uint8_t *taken, size_t t, size_t i, double *error)
{
    const fleet *f = l->f;
    double all = 0, sum = 0, magnitude = 0, off = 0, count = 0;

    for (uint32_t w = 0; w < f->workers; w++)
        all += bit(taken, w) ? f->weight[w] : 0;
    for (uint32_t w = 0; w < f->workers; w++) {
        if (!bit(taken, w) || !sends(l, w, t))
            continue;
        double factor = f->cfg.sum ? f->weight[w] : f->tensors[t].only != TLC_NOBODY ? 1 : f->weight[w] / all;
        sum += factor * l->worker[w].frame[i];
        magnitude += fabs(factor * l->worker[w].frame[i]);
        off += factor * l->worker[w].error[i];
        count++;
    }
    *error = (count + 2) * HALF_ULP * magnitude + off * (1 + 4 * HALF_ULP) + LEAST;
    return sum;
}

static void compare_mean(ledger *l, const uint8_t *taken, size_t t, size_t i, double got, int narrowed)
{
    double error, want = sum_frames(l, taken, t, i, &error);

    error += narrowed ? narrowing(l->f, got) * (1 + 0x1p-7) : 0;
    at.i = i;
    l->means++;
    require(fabs(got - want) <= error * (1 + 1e-9));
}

/* Who took part in the last step of an object. Returns 0 if it does not say. */
static int read_taken(member m, uint8_t *bits)
{
    tlc_outcome o = member_outcome(m, 0);

    require(o.workers <= 8 * TAKEN);
    if (o.taken)
        memcpy(bits, o.taken, (o.workers + 7) / 8);
    return o.taken != NULL;
}

static void note_taken(ledger *l, uint32_t o, const uint8_t *taken)
{
    for (uint32_t w = 0; w < l->f->workers; w++)
        if (bit(taken, w))
            l->worker[w].counts[o] = 1;
}

/* What the answer was made of. x = R + value is rounded, and R' = x - sent. */
static void book_answer(ledger *l, uint32_t o, const float *before, const uint8_t *taken)
{
    const float *const *delta = l->f->deltas[o];

    for (size_t p = 0; p < member_parts(l->f->owner[o]); p++) {
        tlc_part part = member_part(l->f->owner[o], p);
        for (size_t k = 0; k < part.n; k++) {
            size_t i = l->begin[part.tensor] + part.first + k;
            compare_mean(l, taken, part.tensor, i, (double)part.mean[k], 0);
            l->value[i] = (double)(delta ? delta[p][k] : part.mean[k]);
            double x = (double)before[i] + l->value[i], after = (double)part.residual[k];
            l->frame[i] = x - after;
            l->error[i] = HALF_ULP * (fabs(x) + fabs(after)) + LEAST;
        }
    }
}

/* As book_drop: values that could not be answered were taken out of the residuals again, if they were ever in. */
static void book_failure(ledger *l, uint32_t o, const float *before)
{
    const float *const *delta = l->f->deltas[o];

    for (size_t p = 0; p < member_parts(l->f->owner[o]); p++) {
        tlc_part part = member_part(l->f->owner[o], p);
        size_t first = l->begin[part.tensor] + part.first;
        double r = 0, v = 0;
        if (same(before + first, part.residual, part.n * sizeof *before))
            continue;
        for (size_t k = 0; k < part.n; k++) {
            r = larger(r, (double)before[first + k]);
            v = larger(v, (double)(delta ? delta[p][k] : part.mean[k]));
        }
        for (size_t k = 0; k < part.n; k++)
            l->limit[first + k] += 16 * HALF_ULP * (r + v) + LEAST;
    }
}

tlc_status ledger_reduce(ledger *l, uint32_t o)
{
    fleet *f = l->f;
    float *before = floats(l->values);
    uint8_t taken[TAKEN];
    tlc_status status;

    for (size_t p = 0; p < member_parts(f->owner[o]); p++) {
        tlc_part part = member_part(f->owner[o], p);
        memcpy(before + l->begin[part.tensor] + part.first, part.residual, part.n * sizeof *before);
    }
    status = fleet_reduce_one(f, o);
    l->ok[o] = (uint8_t)read_taken(f->owner[o], taken);
    if (l->ok[o]) {
        note_taken(l, o, taken);
        book_answer(l, o, before, taken);
    } else
        book_failure(l, o, before);
    free(before);
    return status;
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

void ledger_settle(ledger *l, uint32_t w, int all_back)
{
    worker_book *b = &l->worker[w];

    for (size_t t = 0; b->step && t < TENSORS; t++)
        for (size_t k = 0; sends(l, w, t) && k < l->f->tensors[t].n; k++) {
            size_t i = l->begin[t] + k;
            if (!all_back && b->counts[l->owner[i]])
                enter(&b->taken[i], b->frame[i], &b->limit[i]);
            else /* r' + frame is rounded */
                b->limit[i] += b->error[i] + HALF_ULP * fabs((double)residual(l, w, t)[k]) + LEAST;
        }
    b->step = 0;
}

/* With gather there is no owner: results are the means. */
static void compare_results(ledger *l, uint32_t w)
{
    uint8_t taken[TAKEN];

    require(read_taken(l->f->worker[w], taken));
    note_taken(l, 0, taken);
    for (size_t t = 0; t < TENSORS; t++)
        for (size_t k = 0; k < l->f->tensors[t].n; k++)
            compare_mean(l, taken, t, l->begin[t] + k, result(l->f, w, t, k), 1);
}

tlc_status ledger_pull(ledger *l, uint32_t w)
{
    tlc_status status = fleet_pull_one(l->f, w);

    if (status && status != TLC_ERR_STEP)
        return status; /* nothing happened */
    if (is_gathered(l->f) && !status && l->compared != l->worker[w].step) {
        l->compared = l->worker[w].step;
        compare_results(l, w);
    }
    ledger_settle(l, w, 0);
    return status;
}

/* ---- end --------------------------------------------------------------------------------------------------------- */

/* Of a part whose answer was made. What comes back is added, what is taken out is subtracted: each is rounded. */
static void end_part(ledger *l, const tlc_part *part, const uint32_t *witness, int cancelled)
{
    for (size_t k = 0; k < part->n; k++) {
        size_t i = at.i = l->begin[part->tensor] + part->first + k;
        l->limit[i] += l->error[i];
        if (!cancelled)
            enter(&l->given[i], l->value[i], &l->limit[i]);
        if (!witness) {
            l->limit[i] += l->error[i] + HALF_ULP * fabs((double)part->residual[k]);
            continue;
        }
        double out = result(l->f, *witness, part->tensor, part->first + k);
        require(fabs(out - l->frame[i]) <= 2 * l->error[i] + narrowing(l->f, out) * (1 + 0x1p-7));
        enter(&l->sent[i], l->f->cfg.dtype == TLC_F32 ? out : l->frame[i], &l->limit[i]);
    }
}

void ledger_end(ledger *l, uint32_t witness, int cancelled)
{
    const fleet *f = l->f;
    int sent = !cancelled && (f->cfg.servers || !f->pulled[witness]);

    for (uint32_t o = 0; o < f->owners; o++)
        for (size_t p = 0; l->ok[o] && p < member_parts(f->owner[o]); p++) {
            tlc_part part = member_part(f->owner[o], p);
            end_part(l, &part, sent ? &witness : NULL, cancelled);
        }
}

void ledger_take_step(ledger *l)
{
    fleet_wipe(l->f);
    for (uint32_t w = 0; w < l->f->workers; w++)
        (void)ledger_push(l, w);
    for (uint32_t o = 0; o < l->f->owners; o++)
        (void)ledger_reduce(l, o);
    for (uint32_t w = 0; w < l->f->workers; w++)
        (void)ledger_pull(l, w);
    ledger_end(l, 0, 0);
}

void ledger_step(ledger *l, uint64_t seed)
{
    fleet_gradients(l->f, seed);
    ledger_take_step(l);
}

/* ---- check ------------------------------------------------------------------------------------------------------- */

static void check_worker(const ledger *l, uint32_t w)
{
    const worker_book *b = &l->worker[w];

    for (size_t t = 0; t < TENSORS; t++)
        for (size_t k = 0; sends(l, w, t) && k < l->f->tensors[t].n; k++) {
            size_t i = at.i = l->begin[t] + k;
            require(fabs(b->given[i] - b->taken[i] - (double)residual(l, w, t)[k]) <= b->limit[i]);
        }
}

void ledger_check(const ledger *l)
{
    for (uint32_t w = 0; w < l->f->workers; w++)
        if (!l->worker[w].step)
            check_worker(l, w);
    for (uint32_t o = 0; o < l->f->owners; o++)
        for (size_t p = 0; p < member_parts(l->f->owner[o]); p++) {
            tlc_part part = member_part(l->f->owner[o], p);
            for (size_t k = 0; k < part.n; k++) {
                size_t i = at.i = l->begin[part.tensor] + part.first + k;
                require(fabs(l->given[i] - l->sent[i] - (double)part.residual[k]) <= l->limit[i]);
            }
        }
}
