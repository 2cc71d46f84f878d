/* SPDX-License-Identifier: MIT */
#include "oracle.h"
#include <float.h>
#include <math.h>

#define ULP 0x1p-23

/* ---- pushes ------------------------------------------------------------------------------------------------------ */

pushed pushed_open(const object *o)
{
    run *r = o->run;

    return (pushed){.before = new_values(r),
                    .grad = new_values(r),
                    .after = new_values(r),
                    .raw = new_results(r, o->dtype)};
}

gradient note_gradient(pushed *p, const object *o, int absent, const void **tensors)
{
    run *r = o->run;
    gradient g = make_gradient(r, o->rank, o->step, o->group->only, o->dtype, p->raw, p->grad);

    g.absent |= absent;
    memcpy(p->before, o->residual, r->sc.values * sizeof(float));
    point_at(r, p->raw, dtype_size[o->dtype], tensors);
    for (size_t t = 0; t < r->sc.count; t++)
        if (!object_pushes(o, t) && drawn(r->sc.seed, ABOUT_JUNK, o->rank, o->step, t) & 1)
            tensors[t] = NULL;
    return g;
}

/* The smallest magnitude that a codec sends for any values. The manifest's natural has shifts up to 20. */
static double floor_of(const codec_case *codec)
{
    return codec == &unknown_codec || !strncmp(codec->text, "natural", 7) ? 0x1p-29 : 0;
}

double largest(const codec_case *codec, const float *x, size_t n)
{
    double most = floor_of(codec);

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Sums that may overflow are close to anything. */
static int is_close(double a, double b, double magnitude)
{
    return a == b || fabs(a - b) <= 4 * ULP * magnitude + 16 * FLT_TRUE_MIN || !(magnitude < 1e38);
}

/* The residual of tensor t, where the gradient waits in it. */
static void check_waiting(const object *o, const pushed *p, size_t t)
{
    const tensor_plan *plan = &o->run->sc.tensor[t];

    for (size_t i = plan->at; i < plan->at + plan->n; i++) {
        double b = p->before[i], g = p->grad[i];
        must(o->run, E6, is_close(p->after[i], b + g, fabs(b) + fabs(g)),
             "rank %u, tensor %zu: the residual is %g instead of %g + %g", o->rank, t, p->after[i], b, g);
    }
}

/* The residual of tensor t, where the gradient was dropped. What was encoded before that is put back, to rounding of
 * the frame's values. Of a worker that joined, the parts that are finite wait. */
static void check_dropped(const object *o, const pushed *p, size_t t)
{
    const tensor_plan *plan = &o->run->sc.tensor[t];
    const codec_case *codec = o->codec[PUSH][t];
    double scale = largest(codec, p->before + plan->at, plan->n) + largest(codec, p->grad + plan->at, plan->n);

    for (size_t i = plan->at; i < plan->at + plan->n; i++)
        must(o->run, E6,
             is_close(p->after[i], p->before[i], scale) || (o->run->sc.assume_finite && p->after[i] == 0) ||
                 (p->kind == PUSH_WAITS && is_close(p->after[i], (double)p->before[i] + p->grad[i], scale)),
             "rank %u, tensor %zu: a gradient was dropped, and the residual is %g instead of %g", o->rank, t,
             p->after[i], p->before[i]);
}

/* Is the residual after a push what it should be, if nothing was sent? */
static void check_unsent(const object *o, const pushed *p, const gradient *g, int dropped)
{
    run *r = o->run;

    for (size_t t = 0; t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        if (!plan->theirs)
            continue;
        if (dropped && !g->bad)
            check_dropped(o, p, t);
        else if (p->kind == PUSH_WAITS && !dropped && object_pushes(o, t))
            check_waiting(o, p, t);
        else
            must(r, E6, same(p->after + plan->at, p->before + plan->at, plan->n * sizeof(float)),
                 "rank %u, tensor %zu: nothing was sent, and the residual has changed", o->rank, t);
    }
}

/* May residual + gradient of tensor t be too large for a frame? */
static int is_huge(const pushed *p, const object *o, size_t t)
{
    const tensor_plan *plan = &o->run->sc.tensor[t];
    int huge = 0;

    for (size_t i = plan->at; i < plan->at + plan->n; i++)
        huge |= !(fabs((double)p->before[i] + p->grad[i]) < (o->dtype == TLC_F16 ? 3e4 : 1e37));
    return huge;
}

void note_push(pushed *p, const object *o, const gradient *g, int joined)
{
    run *r = o->run;
    const tlc_outcome outcome = object_outcome(o, 0);
    int dropped = outcome.cause == TLC_ERR_NONFINITE;

    memcpy(p->after, o->residual, r->sc.values * sizeof(float));
    p->step = o->step;
    p->weight = g->weight;
    p->kind = g->absent ? PUSH_ABSENT : joined ? PUSH_WAITS : dropped ? PUSH_FAILED : PUSH_GOOD;
    must(r, CALLS, !g->bad || dropped, "a gradient that is not finite was pushed");
    must(r, CALLS, !g->bad || outcome.tensor == g->bad_tensor, "tensor %zu is at fault, not %zu", g->bad_tensor,
         outcome.tensor);
    must(r, CALLS, !dropped || g->bad || may_overflow(&r->sc), "rank %u dropped a gradient: %s", o->rank,
         outcome.sentence);
    if (dropped && !g->bad && r->sc.tensor[outcome.tensor].theirs)
        must(r, CALLS, is_huge(p, o, outcome.tensor), "tensor %zu is said to be infinite: %s", outcome.tensor,
             outcome.sentence);
    if (dropped)
        (void)check_outcome(o, 0, TLC_OK, blame_of(CAUSE(TLC_ERR_NONFINITE), o->rank, g->bad_tensor, 0, NULL));
    else
        (void)check_outcome(o, 0, TLC_OK, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    for (size_t i = 0; i < r->sc.values; i++)
        must(r, E6, !isnan(p->after[i]) || r->sc.rate[FAULT_HUGE], "rank %u: NaN in a residual", o->rank);
    if (p->kind != PUSH_GOOD)
        check_unsent(o, p, g, dropped);
}

/* ---- what was sent ----------------------------------------------------------------------------------------------- */

typedef enum knowledge {
    BY_RESIDUAL, /* residual + gradient - residual */
    BY_GRADIENT, /* the gradient itself */
    ABOUT        /* the gradient, roughly */
} knowledge;

static knowledge known(const object *o, size_t t)
{
    if (o->run->sc.tensor[t].theirs)
        return BY_RESIDUAL;
    return !o->feedback[PUSH][t] && o->codec[PUSH][t]->exact ? BY_GRADIENT : ABOUT;
}

/* How far a codec without residual may be from x, where the largest value of the tensor is `most`. */
static double roughness(const codec_case *c, double x, double most)
{
    const char *p = strstr(c->text, "p=");

    if (!strncmp(c->text, "natural", 7))
        return fabs(x) * 1.001 + floor_of(c);
    if (!strncmp(c->text, "int8", 4) || !strncmp(c->text, "qsgd", 4))
        return most * (strstr(c->text, "bits=4") ? 1.0 / 7 : 1.0 / 127) * 1.001;
    if (!strncmp(c->text, "stochastic", 10))
        return most * 1.001;
    if (!strncmp(c->text, "random-sparse", 13))
        return fabs(x) / (p ? strtod(p + 2, NULL) : 0.25) * 1.001;
    return c->exact ? 0 : INFINITY;
}

void check_kept(const object *o, const pushed *p, const part_place *part)
{
    must(o->run, E6,
         !o->run->sc.tensor[part->tensor].theirs ||
             same(o->residual + part->at, p->after + part->at, part->n * sizeof(float)),
         "rank %u, tensor %zu from %zu on: the residual has changed since the push", o->rank, part->tensor,
         part->first);
}

size_t check_returned(const object *o, const pushed *p, const part_place *part)
{
    run *r = o->run;

    if (!object_pushes(o, part->tensor))
        return 0;
    for (size_t i = part->at; r->sc.tensor[part->tensor].theirs && i < part->at + part->n; i++) {
        double want = (double)p->before[i] + p->grad[i];
        double magnitude = fabs((double)p->before[i]) + fabs((double)p->grad[i]) + fabs((double)p->after[i]);
        must(r, E6, is_close(o->residual[i], want, magnitude),
             "rank %u, tensor %zu, value %zu: the residual is %.9g instead of %.9g = %.9g + %.9g, after the push %.9g",
             o->rank, part->tensor, i - part->at + part->first, o->residual[i], want, p->before[i], p->grad[i],
             p->after[i]);
    }
    return o->feedback[PUSH][part->tensor] ? 0 : part->n;
}

/* ---- means ------------------------------------------------------------------------------------------------------- */

static int counts(const group *g, const part_place *part, const uint8_t *taken, uint32_t worker)
{
    return is_taken(taken, worker) && (!g->only[part->tensor] || g->only[part->tensor] == worker + 1);
}

/* The mean of a part, and how far from it the library may be, for each value. */
typedef struct estimate {
    double *mean, *slack;
} estimate;

/* Adds what worker w pushed. */
static void add_push(const estimate *e, const part_place *part, const object *o, const pushed *p, double factor)
{
    knowledge k = known(o, part->tensor);
    double most = k == ABOUT ? largest(o->codec[PUSH][part->tensor], p->grad + part->at, part->n) : 0;

    for (size_t i = 0; i < part->n; i++) {
        double b = p->before[part->at + i], g = p->grad[part->at + i], a = p->after[part->at + i];
        double d = k == BY_RESIDUAL ? b + g - a : g;
        e->mean[i] += factor * d;
        e->slack[i] += FLT_TRUE_MIN * fabs(d); /* of the factor, which is rounded to binary32 */
        if (k == BY_RESIDUAL)
            e->slack[i] += factor * 2 * ULP * (fabs(b) + fabs(g) + fabs(a));
        else
            e->slack[i] += factor * ULP * fabs(g);
        if (k == ABOUT) {
            double rough = roughness(o->codec[PUSH][part->tensor], g, most);
            e->slack[i] += factor * (o->feedback[PUSH][part->tensor] ? INFINITY : rough);
        }
    }
}

static estimate estimate_mean(const group *g, const part_place *part, const object *const *worker,
                              const pushed *const *push, const uint8_t *taken)
{
    estimate e = {take(g->run, part->n * sizeof(double)), take(g->run, part->n * sizeof(double))};
    double all = 0;

    for (uint32_t w = 0; w < g->workers; w++)
        if (counts(g, part, taken, w))
            all += push[w]->weight;
    for (uint32_t w = 0; w < g->workers; w++)
        if (counts(g, part, taken, w))
            add_push(&e, part, worker[w], push[w], g->run->sc.sum ? push[w]->weight : push[w]->weight / all);
    return e;
}

static void give_estimate(run *r, estimate e)
{
    give(r, e.mean);
    give(r, e.slack);
}

void check_mean(const group *g, const part_place *part, const object *const *worker, const pushed *const *push,
                const uint8_t *taken, const float *mean, double error)
{
    run *r = g->run;
    const estimate e = estimate_mean(g, part, worker, push, taken);

    for (size_t i = 0; i < part->n; i++) {
        double room = e.slack[i] * (1 + g->workers / 4.0) + (4 * ULP + error) * fabs(e.mean[i]) + 16 * FLT_TRUE_MIN;
        if (error > 0)
            room += 0x1p-24; /* subnormals of f16 */
        must(r, E6,
             fabs(mean[i] - e.mean[i]) <= room || room > 1e29 || !(fabs(e.mean[i]) + room < (error > 0 ? 6e4 : 1e38)),
             "tensor %zu, value %zu: the mean is %.9g instead of %.9g +- %.3g", part->tensor, part->first + i, mean[i],
             e.mean[i], room);
    }
    give_estimate(r, e);
}

certainty overflows(const group *g, const part_place *part, const object *const *worker, const pushed *const *push,
                    const uint8_t *taken)
{
    certainty c = NO;
    estimate e;

    if (!may_overflow(&g->run->sc))
        return NO;
    e = estimate_mean(g, part, worker, push, taken);
    for (size_t i = 0; i < part->n; i++)
        if (fabs(e.mean[i]) - e.slack[i] > 2 * (double)FLT_MAX)
            c = YES;
        else if (c == NO && !(fabs(e.mean[i]) < 1e36 && e.slack[i] < 1e28)) /* or a part of the sum */
            c = PERHAPS;
    give_estimate(g->run, e);
    return c;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

void check_answer(const object *owner, const part_place *part, const float *before, const float *after,
                  const float *given, const uint8_t *result, tlc_dtype dtype)
{
    static const double errors[] = {0, 0x1p-10, 0x1p-7};
    run *r = owner->run;
    const codec_case *codec = owner->codec[PULL][part->tensor];
    float *wide = take(r, part->n * sizeof *wide);
    double most = largest(codec, given, part->n);

    widen(dtype, result + part->at * dtype_size[dtype], wide, part->n);
    for (size_t i = 0; i < part->n; i++) {
        double rest = before ? (double)before[i] - after[i] : 0, want = given[i] + rest;
        double room = 4 * ULP *
                          (fabs((double)given[i]) + (before ? fabs((double)before[i]) + fabs((double)after[i]) : 0)) +
                      errors[dtype] * fabs((double)wide[i]) + (dtype == TLC_F32 ? 16 * FLT_TRUE_MIN : 0x1p-24);
        if (!before)
            room += roughness(codec, given[i], most);
        must(r, E6, fabs(wide[i] - want) <= room || (dtype == TLC_F16 && fabs(want) > 6e4),
             "tensor %zu, value %zu: the answer is %.9g instead of %.9g +- %.3g", part->tensor, part->first + i,
             wide[i], want, room);
    }
    give(r, wide);
}

/* ---- masks ------------------------------------------------------------------------------------------------------- */

void check_mask(const object *o, const pushed *p, const part_place *part, int taken, const float *momentum,
                float filled)
{
    run *r = o->run;
    const codec_case *codec = o->codec[PUSH][part->tensor];
    int sent = taken && p->kind == PUSH_GOOD && object_pushes(o, part->tensor), small;

    (void)scenario_codec(&r->sc, part->tensor, PUSH, &small);
    for (size_t i = 0; codec != &unknown_codec && i < part->n; i++) {
        const float *m = &momentum[part->at + i];
        float x = p->before[part->at + i] + p->grad[part->at + i];
        int zeroed = float_bits(*m) == 0, kept = float_bits(*m) == float_bits(filled);
        if (!(fabsf(x) < 1e30f))
            continue;
        must(r, CALLS, zeroed || kept, "tensor %zu: mask wrote %g", part->tensor, *m);
        if (!sent || small || !codec->has_zero)
            must(r, CALLS, kept, "tensor %zu, value %zu was masked", part->tensor, part->first + i);
        else if (r->sc.tensor[part->tensor].theirs)
            must(r, CALLS, zeroed == (x != p->after[part->at + i]), "tensor %zu, value %zu: masked %d, sent %g of %g",
                 part->tensor, part->first + i, zeroed, x - p->after[part->at + i], x);
    }
}
