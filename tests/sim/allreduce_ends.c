/* SPDX-License-Identifier: MIT
 *
 * Deaths in an all-reduce, and what follows: a new reduction that goes on from checkpoints, or without the dead; and
 * the end of a run.
 */
#include "allreduce.h"
#include "tasks.h"
#include <math.h>

enum { MOST_GENERATIONS = 3 };

int dies(const reduction *w, const member *m, int where)
{
    uint64_t draw = drawn(w->run->sc.seed, ABOUT_DEATH, m->o->step, m->o->rank, w->generation);

    /* if nobody owns anything, nobody waits for the others, and their checkpoints have nothing in common */
    return (w->group.parts || is_gathered(w)) && w->generation < MOST_GENERATIONS &&
           falls(draw, w->run->sc.rate[FAULT_DEATH] / 4) && below(draw, 3) == (uint64_t)where;
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

/* What this owner reduced is taken out of its residual again. */
static void check_undone(const reduction *w, const member *m)
{
    for (const part_place *p = first_part(&w->group, m->o->rank); p < first_part(&w->group, m->o->rank + 1); p++) {
        const tlc_part part = object_part(m->o, p->index);
        const float *before = m->owned_before + p->at, *mean = m->owned_given + p->at;
        const codec_case *codec = m->o->codec[PULL][p->tensor];
        for (size_t i = 0; part.residual && i < p->n; i++) {
            double magnitude = largest(codec, before, p->n) + largest(codec, mean, p->n); /* the scale of a frame */
            if (m->phase == REDUCED && m->reduced)
                must(w->run, E6, fabs((double)before[i] - part.residual[i]) <= 0x1p-20 * magnitude + 0x1p-140,
                     "cancel: tensor %zu, value %zu: the owner's residual is %.9g instead of %.9g", p->tensor,
                     p->first + i, part.residual[i], before[i]);
            else if (m->phase == REDUCED && !may_overflow(&w->run->sc)) /* as in check_failed_owner */
                must(w->run, E6, part.residual[i] == before[i],
                     "cancel: tensor %zu, value %zu: the owner's residual was %.9g, and is %.9g", p->tensor,
                     p->first + i, before[i], part.residual[i]);
        }
    }
}

static void cancel(reduction *w, member *m)
{
    object *o = m->o;
    tlc_status status = IN_MODE(w->run, tlc_allreduce_cancel(o->it));

    must(w->run, CALLS, !status, "cancel: %s", tlc_status_string(status));
    (void)check_outcome(o, 0, TLC_OK, blame_of(CAUSE(TLC_ERR_STEP), TLC_NOBODY, TLC_ALL, 0, NULL));
    for (const part_place *p = w->group.part; p < w->group.part + w->group.parts; p++)
        if (m->push.kind == PUSH_GOOD)
            o->expected.dropped += check_returned(o, &m->push, p);
        else if (object_pushes(o, p->tensor))
            check_kept(o, &m->push, p);
    check_undone(w, m);
    o->expected.steps++;
    o->expected.failed++;
    o->step++;
    object_check(o);
    must_refuse(o, tlc_allreduce_cancel(o->it), TLC_ERR_ORDER);
    m->phase = BETWEEN;
}

/* Are all who live in the same step, so that none of them has its results? */
static int can_cancel(const reduction *w)
{
    uint64_t step = 0;

    for (uint32_t i = 0; i < w->ranks; i++) {
        const member *m = &w->member[i];
        if (m->phase == DEAD)
            continue;
        if ((step && m->o->step != step) || (m->phase != PUSHED && m->phase != REDUCED))
            return 0;
        step = m->o->step;
    }
    return step != 0;
}

/* ---- another reduction ------------------------------------------------------------------------------------------- */

/* Makes the next reduction, of this many ranks, from the states of this one. */
static void replace_reduction(reduction *w, uint32_t ranks, const checkpoint *const *saved, size_t count)
{
    reduction next;
    int same_ranks = ranks == w->ranks && count == ranks;

    reduction_close(w);
    reduction_open(&next, w->run, ranks);
    next.generation = w->generation + 1;
    if (same_ranks)
        memcpy(next.results, w->results, sizeof next.results);
    for (uint32_t i = 0; i < ranks; i++)
        if (same_ranks)
            load_same(next.member[i].o, saved[i]);
        else
            load_all(next.member[i].o, saved, count);
    *w = next;
    reduction_place(w);
}

/* The survivors go on without the dead. */
static void shrink(reduction *w)
{
    checkpoint made[MOST_RANKS];
    const checkpoint *saved[MOST_RANKS];
    uint32_t alive = 0;

    for (uint32_t i = 0; i < w->ranks; i++)
        if (w->member[i].phase != DEAD) {
            cancel(w, &w->member[i]);
            made[alive] = checkpoint_make(w->member[i].o);
            saved[alive] = &made[alive];
            alive++;
        }
    tell(w->run, "%u of %u ranks go on", alive, w->ranks);
    replace_reduction(w, alive, saved, alive);
}

/* All start again from the last checkpoint that all have, perhaps as more or fewer ranks. */
static void restart(reduction *w, uint64_t draw)
{
    const checkpoint *saved[MOST_RANKS];
    uint64_t step = UINT64_MAX;
    uint32_t ranks = w->ranks;

    for (uint32_t i = 0; i < w->ranks; i++)
        if (w->member[i].saved[0].step < step)
            step = w->member[i].saved[0].step;
    for (uint32_t i = 0; i < w->ranks; i++) {
        saved[i] = &w->member[i].saved[w->member[i].saved[0].step != step];
        must(w->run, CALLS, saved[i]->step == step, "the simulator lost a checkpoint");
    }
    if (draw & 4)
        ranks = 1 + (uint32_t)below(mixed(draw), ranks < 8 ? 2 * ranks : ranks);
    tell(w->run, "%u ranks start again from step %llu, as %u", w->ranks, (unsigned long long)step, ranks);
    replace_reduction(w, ranks, saved, w->ranks);
}

void go_on(reduction *w)
{
    uint64_t draw = drawn(w->run->sc.seed, ABOUT_RECOVERY, w->generation, w->ranks, 0);

    if (can_cancel(w) && draw & 1)
        shrink(w);
    else
        restart(w, draw);
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void finish(reduction *w)
{
    run *r = w->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_RECOVERY, 0, 0, 1);
    checkpoint made[MOST_RANKS];
    const checkpoint *saved[MOST_RANKS] = {NULL};

    for (uint32_t i = 0; i < w->ranks; i++) {
        made[i] = checkpoint_make(w->member[i].o);
        saved[i] = &made[i];
        digest(r, OF_STATE, 0, i, made[i].state.data, made[i].state.len);
    }
    if (falls(draw, r->sc.rate[FAULT_WRONG]))
        refuse_states(w->member[0].o, saved[w->ranks - 1], NULL);
    if (draw % 4 == 0)
        replace_reduction(w, 1 + (uint32_t)below(draw, w->ranks < 8 ? 2 * w->ranks : w->ranks), saved, w->ranks);
}

/* ---- calls out of turn ------------------------------------------------------------------------------------------- */

static void refuse_out_of_turn(object *o, tlc_status got, const frozen *before, const char *call)
{
    must(o->run, CALLS, got == TLC_ERR_ORDER, "%s out of turn: %s", call, tlc_status_string(got));
    (void)check_outcome(o, 0, TLC_ERR_ORDER, blame_of(CAUSE(TLC_ERR_ORDER), o->rank, TLC_ALL, 0, NULL));
    check_frozen(o, before, call);
}

void refuse_calls(const reduction *w, member *m)
{
    const run *r = w->run;
    object *o = m->o;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, o->step, o->rank, m->phase);
    const tlc_message from[MOST_RANKS] = {{NULL, 0}};
    tlc_message to[MOST_RANKS] = {{NULL, 0}};
    const void *grads[MOST_TENSORS];
    void *out[MOST_TENSORS];
    size_t written;

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    point_at(r, m->push.raw, dtype_size[o->dtype], grads);
    point_at(r, m->out, dtype_size[o->dtype], (const void **)out);
    const frozen before = freeze(o, m->out, results_size(r, o->dtype));
    if (m->phase != BETWEEN) {
        refuse_out_of_turn(o, tlc_allreduce_push(o->it, grads, 1, to), &before, "push");
        refuse_out_of_turn(o, object_load(o, &from[0], 1), &before, "state_load");
        must_refuse(o, object_try_save(o, &written), TLC_ERR_ORDER);
        must_refuse(o, object_scale(o, 2), TLC_ERR_ORDER);
    } else {
        refuse_out_of_turn(o, tlc_allreduce_cancel(o->it), &before, "cancel");
        must_refuse(o, tlc_allreduce_push(o->it, grads, 0, to), TLC_ERR_PARAM);
        must_refuse(o, tlc_allreduce_push(o->it, grads, NAN, to), TLC_ERR_PARAM);
        must_refuse(o, tlc_allreduce_push(o->it, grads, 1, NULL), TLC_ERR_PARAM);
        if (hide_gradient(o, draw, grads))
            must_refuse(o, tlc_allreduce_push(o->it, grads, 1, to), TLC_ERR_PARAM);
        must_refuse(o, object_scale(o, INFINITY), TLC_ERR_PARAM);
        must_refuse(o, tlc_allreduce_again(o->it, o->step, to), TLC_ERR_ORDER);
    }
    if (m->phase != PUSHED || is_gathered(w)) {
        refuse_out_of_turn(o, tlc_allreduce_reduce(o->it, from, to), &before, "reduce");
        refuse_out_of_turn(o, tlc_allreduce_average(o->it, from), &before, "average");
    }
    refuse_out_of_turn(o, tlc_allreduce_answer(o->it, NULL, to), &before, "answer");
    if (m->phase == BETWEEN || (m->phase == PUSHED && is_owner(w, o->rank) && !is_gathered(w)))
        refuse_out_of_turn(o, tlc_allreduce_pull(o->it, from, out), &before, "pull");
    must_refuse(o, tlc_allreduce_again(o->it, 0, to), TLC_ERR_PARAM);
    must_refuse(o, tlc_allreduce_again(o->it, o->step + 1, to), TLC_ERR_ORDER);
}
