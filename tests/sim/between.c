/* SPDX-License-Identifier: MIT */
#include "between.h"
#include "states.h"
#include "values.h"
#include <math.h>

/* A copy of all residuals of an object: those of pushes, then those of answers where it owns something. */
static float *copy_residuals(const object *o, float **owned)
{
    run *r = o->run;
    float *copy = memcpy(take(r, r->sc.values * sizeof *copy), o->residual, r->sc.values * sizeof *copy);

    *owned = take(r, r->sc.values * sizeof **owned);
    for (size_t p = 0; o->role != ROLE_WORKER && p < o->group->parts; p++)
        if (o->group->part[p].owner == o->rank) {
            const tlc_part now = object_part(o, o->group->part[p].index);
            if (now.residual)
                memcpy(*owned + o->group->part[p].at, now.residual, now.n * sizeof(float));
        }
    return copy;
}

/* Huge values may have made a NaN; it stays one. */
static int is_product(float now, float before, float factor)
{
    return now == before * factor || (isnan(now) && isnan(before));
}

static void scale(object *o, uint64_t draw)
{
    static const float factors[] = {0.5f, 2.0f, 1.5f, 0.0f, -1.0f};
    run *r = o->run;
    float factor = factors[below(draw, COUNT(factors))], *owned, *before = copy_residuals(o, &owned), *now_owned, *now;
    tlc_status status = object_scale(o, factor);

    must(r, CALLS, !status || (status == TLC_ERR_NONFINITE && may_overflow(&r->sc)), "residual_scale: %s",
         tlc_status_string(status));
    factor = status ? 1.0f : factor;
    now = copy_residuals(o, &now_owned);
    for (size_t t = 0; t < r->sc.count; t++)
        for (size_t i = r->sc.tensor[t].at; i < r->sc.tensor[t].at + r->sc.tensor[t].n; i++) {
            int pushed = r->sc.tensor[t].theirs && o->role != ROLE_SERVER && object_pushes(o, t);
            must(r, CALLS, is_product(now[i], before[i], pushed ? factor : 1), "residual_scale: %g becomes %g",
                 before[i], now[i]);
            must(r, CALLS, is_product(now_owned[i], owned[i], factor), "residual_scale: %g of an owner becomes %g",
                 owned[i], now_owned[i]);
        }
    give(r, before);
    give(r, owned);
    give(r, now);
    give(r, now_owned);
}

/* Is the codec of this tensor that of the configuration? */
static int has_common_codec(const object *o, size_t tensor, int direction)
{
    int small;

    (void)scenario_codec(&o->run->sc, tensor, direction, &small);
    return !o->run->sc.tensor[tensor].own[direction] && !small;
}

static void change_codec(object *o, uint64_t draw)
{
    run *r = o->run;
    const codec_case *codec = r->sc.reserve[1] && draw >> 63 ? r->sc.reserve[1] : r->sc.reserve[0];
    size_t tensor = draw >> 62 & 1 || !r->sc.count ? TLC_ALL : (size_t)below(draw, r->sc.count);
    int direction = o->role == ROLE_SERVER ? PULL : o->role == ROLE_RANK ? (int)(draw >> 61 & 1) : PUSH, small = 0;
    tlc_status status;

    if (tensor != TLC_ALL)
        (void)scenario_codec(&r->sc, tensor, direction, &small);
    if (small || !codec) {
        must_refuse(o, object_set_codec(o, small ? tensor : r->sc.count, direction, "raw"), TLC_ERR_PARAM);
        must_refuse(o, object_set_codec(o, TLC_ALL, direction, "no codec"), TLC_ERR_PARAM);
        return;
    }
    status = object_set_codec(o, tensor, direction, codec->text);
    must(r, CALLS, !status, "set_codec of a reserved codec: %s", tlc_status_string(status));
    for (size_t t = 0; t < r->sc.count; t++)
        if (tensor == t || (tensor == TLC_ALL && has_common_codec(o, t, direction)))
            o->codec[direction][t] = codec;
    tell(r, "step %llu: %u has codec %s", (unsigned long long)o->step, o->rank, codec->text);
}

void between_steps(object **o, int may_reload)
{
    const run *r = (*o)->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_BOUNDARY, (*o)->step, (*o)->rank, (*o)->role);

    if (falls(draw, r->sc.rate_boundary)) {
        if (draw & 1 && (*o)->role != ROLE_NODE) /* nodes have no residuals */
            scale(*o, mixed(draw));
        else
            change_codec(*o, mixed(draw));
    }
    if (r->play.reloads && may_reload && mixed(draw) % 3 == 0)
        object_reload(o);
}
