/* SPDX-License-Identifier: MIT */
#include "values.h"
#include <math.h>
#include <threelc/stages.h>

#define PATTERN 0xa5

/* ---- arrays ------------------------------------------------------------------------------------------------------ */

static void fill_gaps(const run *r, void *values, size_t size)
{
    uint8_t *p = values;

    memset(p, PATTERN, GAP * size);
    for (size_t t = 0; t < r->sc.count; t++)
        memset(p + (r->sc.tensor[t].at + r->sc.tensor[t].n) * size, PATTERN, GAP * size);
}

float *new_values(run *r)
{
    float *values = take(r, r->sc.values * sizeof *values);

    fill_gaps(r, values, sizeof *values);
    return values;
}

float *new_f32_results(run *r)
{
    return memset(take(r, r->sc.values * sizeof(float)), PATTERN, r->sc.values * sizeof(float));
}

size_t results_size(const run *r, tlc_dtype dtype)
{
    return r->sc.values * dtype_size[dtype];
}

uint8_t *new_results(run *r, tlc_dtype dtype)
{
    size_t shift = (size_t)below(mixed(r->sc.seed), 2); /* so that there is no alignment */
    uint8_t *results = (uint8_t *)take(r, results_size(r, dtype) + shift) + shift;

    clear_results(r, dtype, results);
    return results;
}

void clear_results(const run *r, tlc_dtype dtype, uint8_t *results)
{
    memset(results, PATTERN, results_size(r, dtype));
}

int is_cleared(const run *r, tlc_dtype dtype, const uint8_t *results, size_t first, size_t n)
{
    (void)r;
    return all_bytes(results + first * dtype_size[dtype], n * dtype_size[dtype], PATTERN);
}

void check_gaps(run *r, const void *values, size_t size, const char *what)
{
    const uint8_t *p = values;

    must(r, E3, all_bytes(p, GAP * size, PATTERN), "written before the first tensor: %s", what);
    for (size_t t = 0; t < r->sc.count; t++)
        must(r, E3, all_bytes(p + (r->sc.tensor[t].at + r->sc.tensor[t].n) * size, GAP * size, PATTERN),
             "written past tensor %zu: %s", t, what);
}

void point_at(const run *r, const void *values, size_t size, const void **tensors)
{
    for (size_t t = 0; t < r->sc.count; t++)
        tensors[t] = (const uint8_t *)values + r->sc.tensor[t].at * size;
}

void narrow(const float *from, tlc_dtype dtype, void *to, size_t n)
{
    (void)tlc_convert(TLC_F32, from, dtype, to, n);
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

/* -1 <= result < 1 */
static float signed_unit(uint64_t draw)
{
    return (float)((double)(int32_t)(uint32_t)draw * 0x1p-31);
}

static float any_value(value_kind kind, uint64_t draw)
{
    float u = signed_unit(draw);

    switch (kind) {
    case VALUES_SMOOTH: return u * signed_unit(draw >> 32) * 0.25f;
    case VALUES_ZERO: return 0.0f;
    case VALUES_SPARSE: return draw >> 61 ? 0.0f : u;
    case VALUES_DENSE: return u < 0 ? -0.95f + 0.05f * u : 0.95f + 0.05f * u;
    case VALUES_TIES: return (float)((int)(draw >> 62) - 1) * 0.5f;
    default: return ldexpf(u, (int)(draw >> 40 & 63) - 40);
    }
}

/* Large enough that two of them have no finite sum in binary32, or in f16. */
static float huge_value(tlc_dtype dtype, uint64_t draw)
{
    float magnitude = dtype == TLC_F16 ? 60000.0f : 3e38f;
    return draw >> 63 ? -magnitude : magnitude;
}

static void fill_tensor(run *r, uint32_t rank, uint64_t step, size_t t, tlc_dtype dtype, float *values)
{
    const tensor_plan *plan = &r->sc.tensor[t];
    uint64_t seed = drawn(r->sc.seed, ABOUT_VALUES, rank, step, t);
    float scale = ldexpf(1.0f, plan->scale);
    int huge = falls(drawn(r->sc.seed, ABOUT_VALUES, step, t, UINT64_MAX), r->sc.rate[FAULT_HUGE]);
    value_kind kind = (seed & 7) == 0 ? (value_kind)(seed >> 8 & 1 ? VALUES_ZERO : VALUES_SPARSE) : plan->values;

    r->found->injected[FAULT_HUGE] += (uint64_t)huge;
    for (size_t i = 0; i < plan->n; i++) {
        uint64_t draw = mixed(seed + i);
        float x = any_value(kind, draw) * scale;
        if (dtype == TLC_F16 || r->sc.mixed_dtypes) /* so that sums are finite */
            x = fminf(fmaxf(x, -100.0f), 100.0f);
        values[i] = huge && (draw >> 20 & 3) == 0 ? huge_value(dtype, draw) : x;
    }
}

/* Puts NaN or an infinity into one of the rank's tensors. */
static void spoil(run *r, uint32_t rank, uint64_t step, const uint32_t *only, float *wide, gradient *g)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    uint64_t draw = drawn(r->sc.seed, ABOUT_NONFINITE, rank, step, 0);
    size_t mine[MOST_TENSORS], count = 0;

    for (size_t t = 0; t < r->sc.count; t++)
        if (r->sc.tensor[t].n && (!only[t] || only[t] == rank + 1))
            mine[count++] = t;
    if (!count || !falls(draw, r->sc.rate[FAULT_NONFINITE]))
        return;
    const tensor_plan *t = &r->sc.tensor[mine[below(draw, count)]];
    if (!r->sc.assume_finite) { /* else some codecs let it pass */
        g->bad = 1;
        g->bad_tensor = (size_t)(t - r->sc.tensor);
    }
    wide[t->at + (size_t)below(mixed(draw), t->n)] = bad[below(draw >> 32, COUNT(bad))];
    r->found->injected[FAULT_NONFINITE]++;
}

static double draw_weight(const run *r, uint32_t rank, uint64_t step)
{
    static const double weights[] = {1, 0.5, 2, 3.7, 1e-3, 1e3, 17, 0x1p-50, 0x1p50};
    size_t count = COUNT(weights) - (r->sc.sum ? 2 : 0); /* sums of the last two are not finite, or not seen */

    return r->sc.weighted ? weights[below(drawn(r->sc.seed, ABOUT_WEIGHT, rank, step, 0), count)] : 1;
}

gradient make_gradient(run *r, uint32_t rank, uint64_t step, const uint32_t *only, tlc_dtype dtype, uint8_t *raw,
                       float *wide)
{
    gradient g = {.bad_tensor = TLC_ALL, .weight = draw_weight(r, rank, step)};

    g.absent = falls(drawn(r->sc.seed, ABOUT_ROUND, rank, step, 0), r->sc.rate_round);
    for (size_t t = 0; t < r->sc.count; t++)
        fill_tensor(r, rank, step, t, dtype, wide + r->sc.tensor[t].at);
    if (!g.absent)
        spoil(r, rank, step, only, wide, &g);
    narrow(wide, dtype, raw, r->sc.values);
    widen(dtype, raw, wide, r->sc.values);
    fill_gaps(r, wide, sizeof *wide);
    return g;
}
