/* SPDX-License-Identifier: MIT
 *
 * Pull of an all-reduce, and what must be true after it.
 */
#include "allreduce.h"
#include "forge.h"
#include "stranger.h"
#include "tasks.h"
#include <math.h>

/* The messages for pull. Those of ranks that own nothing must not be read. */
static void list_messages(const reduction *w, const member *m, tlc_message *from)
{
    for (uint32_t i = 0; i < w->ranks; i++)
        if (is_gathered(w) || is_owner(w, i))
            from[i] = blob_message(m->in[is_gathered(w) ? PUSHES : ANSWERS][i].bytes);
        else
            from[i] = (tlc_message){(const void *)(uintptr_t)64, 77};
}

/* Pulls with a message at fault: an error that names its sender, and no change. */
static void pull_wrong(reduction *w, member *m, const tlc_message *from, blame b)
{
    void *out[MOST_TENSORS];
    object *o = m->o;
    frozen before;
    tlc_status status;

    point_at(w->run, m->out, dtype_size[o->dtype], (const void **)out);
    clear_results(w->run, o->dtype, m->out);
    before = freeze(o, m->out, results_size(w->run, o->dtype));
    status = tlc_allreduce_pull(o->it, from, out);
    must(w->run, CALLS, status && (b.causes & CAUSE(status)), "pull of a wrong message of rank %u: %s", b.rank,
         tlc_status_string(status));
    b.causes = CAUSE(status);
    (void)check_outcome(o, 0, status, b);
    check_frozen(o, &before, "pull of a wrong message");
    must(w->run, CALLS, tlc_allreduce_pull(o->it, from, out) == status,
         "the same pull is refused otherwise"); /* its outcome again */
}

/* Pulls with damaged messages, and forgets them. Returns 0 if there were any. */
static int pull_damaged(reduction *w, member *m, const tlc_message *from)
{
    slot *in = m->in[is_gathered(w) ? PUSHES : ANSWERS];
    blame b = blame_of(CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM) | CAUSE(TLC_ERR_VERSION), ANYONE, TLC_ALL, 0,
                       NULL);
    uint32_t damaged = 0;

    for (uint32_t i = 0; i < w->ranks; i++)
        if (in[i].filled && in[i].condition == DAMAGED) {
            b.rank = damaged++ ? ANYONE : i;
            in[i].filled = 0; /* m->in keeps the bytes until they come again */
        }
    if (!damaged)
        return 1;
    pull_wrong(w, m, from, b);
    if (damaged > 1)
        must(w->run, CALLS, in[object_outcome(m->o, 0).rank].condition == DAMAGED, "pull: %s",
             object_outcome(m->o, 0).sentence);
    for (uint32_t i = 0; i < w->ranks; i++)
        if (!in[i].filled) {
            blob_drop(w->run, in[i].bytes);
            in[i].bytes = NULL;
        }
    return 0;
}

/* Is this the owner that the others are compared with? */
static int is_first_owner(const reduction *w, uint32_t rank)
{
    for (uint32_t i = 0; i < rank; i++)
        if (is_owner(w, i))
            return 0;
    return 1;
}

static int has_other_owner(const reduction *w, uint32_t rank)
{
    for (uint32_t i = 0; i < w->ranks; i++)
        if (i != rank && is_owner(w, i))
            return 1;
    return 0;
}

/* Tries what a broken or hostile peer may send. */
static void try_forged_messages(reduction *w, member *m, tlc_message *from, uint32_t i, uint64_t draw)
{
    run *r = w->run;
    const tlc_message right = blob_message(m->in[is_gathered(w) ? PUSHES : ANSWERS][i].bytes);
    unsigned causes;
    blob *forged = forge_head(r, right, mixed(draw), &causes);

    /* an owner with other settings is not read when the others say that the step failed */
    from[i] = blob_message(forged);
    if (!(causes & CAUSE(TLC_ERR_PARAM)) || !common_of(w, m->o->step)->faults)
        pull_wrong(w, m, from, blame_of(causes, i, TLC_ALL, 0, NULL));
    blob_drop(r, forged);
    forged = forge_frame(r, right, draw);
    from[i] = blob_message(forged);
    if (forged)
        pull_wrong(w, m, from, blame_of(BAD_FRAME, i, TLC_ALL, 0, NULL));
    blob_drop(r, forged);
    forged = is_gathered(w) || !has_other_owner(w, i) || common_of(w, m->o->step)->faults
                 ? NULL
                 : forge_taken(r, right, w->ranks);
    from[i] = blob_message(forged);
    if (forged)
        pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_CORRUPT), is_first_owner(w, i) ? ANYONE : i, TLC_ALL, 0, NULL));
    blob_drop(r, forged);
    from[i] = right;
}

/* Tries wrong messages before the right ones. */
static void try_wrong_messages(reduction *w, member *m, tlc_message *from)
{
    run *r = w->run;
    int kind = is_gathered(w) ? PUSHES : ANSWERS;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_MESSAGE, m->o->step, m->o->rank, 0);
    uint32_t i = (uint32_t)below(draw, w->ranks), j = (i + 1) % w->ranks;
    const tlc_message right = from[i];
    object_role role = ROLE_RANK;
    blob *strange = NULL;

    if (!falls(draw, r->sc.rate[FAULT_WRONG]) || !(is_gathered(w) || is_owner(w, i)))
        return;
    r->found->injected[FAULT_WRONG]++;
    from[i] = (tlc_message){NULL, 0};
    pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_CORRUPT), i, TLC_ALL, 0, NULL));
    from[i] = (tlc_message){right.data, right.len - 1};
    pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM), i, TLC_ALL, 0, NULL));
    if (m->last[kind][i]) {
        from[i] = blob_message(m->last[kind][i]);
        pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_ORDER), i, TLC_ALL, m->o->step - 1, NULL));
    }
    if (j != i && (is_gathered(w) || is_owner(w, j))) {
        from[i] = from[j];
        pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_PARAM), i, TLC_ALL, 0, NULL));
    }
    if (!is_gathered(w) && m->mine[i]) { /* a push */
        from[i] = blob_message(m->mine[i]);
        pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_PARAM), i, TLC_ALL, 0, NULL));
    }
    try_forged_messages(w, m, from, i, draw);
    if (m->o->step == 1 && !common_of(w, 1)->faults) {
        strange = is_gathered(w) ? stranger_push(r, &w->group, role, i, draw)
                                 : stranger_answer(r, &w->group, role, i, draw);
        from[i] = blob_message(strange);
        if (strange)
            pull_wrong(w, m, from, blame_of(CAUSE(TLC_ERR_PARAM), i, TLC_ALL, 0, NULL));
        blob_drop(r, strange);
    }
    from[i] = right;
}

/* With gather nobody is at fault if a mean is not finite. The first to pull looks for it. */
static void find_overflow(reduction *w, const member *m)
{
    common *c = common_of(w, m->o->step);
    const tlc_outcome outcome = object_outcome(m->o, 0);
    certainty worst = NO;

    for (size_t p = 0; p < w->group.parts; p++) {
        certainty now = overflows(&w->group, &w->group.part[p], w->objects, w->pushes, c->taken);
        worst = now > worst ? now : worst;
    }
    c->overflow = worst == YES || (worst == PERHAPS && outcome.status == TLC_ERR_STEP);
    c->faults = (uint32_t)c->overflow;
}

/* E2: all ranks find the same. The first one is compared with what we know. */
static void check_end(reduction *w, member *m, tlc_status status)
{
    common *c = common_of(w, m->o->step);
    run *r = w->run;
    tlc_outcome outcome;

    must(r, E2, status == TLC_OK || status == TLC_ERR_STEP, "pull: %s (%s)", tlc_status_string(status),
         object_outcome(m->o, 0).sentence);
    if (is_gathered(w) && !c->ended && !c->faults)
        find_overflow(w, m);
    must(r, E2, (status == TLC_ERR_STEP) == (c->faults > 0), "pull: %s, with %u faults (%s)", tlc_status_string(status),
         c->faults, object_outcome(m->o, 0).sentence);
    if (c->overflow)
        outcome = check_outcome(m->o, 0, status, blame_of(CAUSE(TLC_ERR_NONFINITE), TLC_NOBODY, TLC_ALL, 0, NULL));
    else
        outcome = check_blame(w, m->o, status, c->fault, c->faults);
    if (!c->ended) {
        c->first = outcome;
        c->failed = status != TLC_OK;
    }
    c->ended |= UINT64_C(1) << m->o->rank;
    must(r, E2, c->failed == (status != TLC_OK), "rank %u: %s, others did not", m->o->rank, outcome.sentence);
    must(r, E2, outcome.cause == c->first.cause && outcome.rank == c->first.rank && outcome.tensor == c->first.tensor,
         "\"%s\" here and \"%s\" there", outcome.sentence, c->first.sentence);
    if (c->failed || (!is_gathered(w) && !w->group.parts)) /* nobody answers if nobody owns anything */
        must(r, CALLS, !outcome.taken, "pull: somebody was taken");
    else
        must(r, CALLS, outcome.taken && same(outcome.taken, c->taken, (w->ranks + 7) / 8),
             "pull: others were taken than those who pushed");
}

/* E4: results are the same bits on all ranks. E7: and when the step is played again. */
static void check_results(reduction *w, member *m)
{
    run *r = w->run;
    object *o = m->o;
    common *c = common_of(w, o->step);
    size_t size = results_size(r, o->dtype);
    uint64_t sum = digest_of(m->out, size), *before = &w->results[o->step];

    check_gaps(r, m->out, dtype_size[o->dtype], "results");
    must(r, E4, !c->has_results[o->dtype] || c->results[o->dtype] == sum, "rank %u has other results", o->rank);
    c->has_results[o->dtype] = 1;
    c->results[o->dtype] = sum;
    digest(r, OF_RESULT, o->step, o->rank, m->out, size);
    if (o->dtype == TLC_F32 && !c->exact)
        c->exact = memcpy(take(r, size), m->out, size);
    if (o->dtype != TLC_F32 && c->exact) {
        uint8_t *narrowed = new_results(r, o->dtype);
        for (size_t t = 0; t < r->sc.count; t++) {
            const tensor_plan *plan = &r->sc.tensor[t];
            narrow(c->exact + plan->at, o->dtype, narrowed + plan->at * dtype_size[o->dtype], plan->n);
        }
        must(r, E4, same(narrowed, m->out, size), "rank %u has other results in its dtype", o->rank);
        give(r, narrowed - (size_t)below(mixed(r->sc.seed), 2));
    }
    if (o->rank == 0 && !r->sc.mixed_dtypes && !r->sc.rate[FAULT_WRONG]) {
        must(r, E7, !*before || *before == sum, "step %llu has other results than before the restart",
             (unsigned long long)o->step);
        *before = sum;
    }
}

/* E6a: what was pushed is either in the results or back in the residual. */
static void check_pushed(const reduction *w, member *m, const common *c)
{
    for (const part_place *p = w->group.part; p < w->group.part + w->group.parts; p++) {
        int reduced = p->owner != TLC_NOBODY && (c->reduced >> p->owner & 1);
        if (c->failed && !reduced && m->push.kind == PUSH_GOOD)
            m->o->expected.dropped += check_returned(m->o, &m->push, p);
        else if (object_pushes(m->o, p->tensor))
            check_kept(m->o, &m->push, p);
    }
}

/* The step failed: the owner's residual takes the mean back, if there is one. */
static void check_failed_owner(reduction *w, const member *m, const part_place *p, const float *residual)
{
    const float *before = m->owned_before + p->at, *mean = m->owned_given + p->at;
    const codec_case *codec = m->o->codec[PULL][p->tensor];
    double scale = residual ? largest(codec, before, p->n) + (m->reduced ? largest(codec, mean, p->n) : 0) : 0;

    if (!m->reduced && may_overflow(&w->run->sc))
        return; /* an answer that could not be made was taken back, to rounding of huge values */
    if (!m->reduced)
        must(w->run, E6, !residual || same(before, residual, p->n * sizeof(float)),
             "tensor %zu: the residual of an owner that did not reduce has changed", p->tensor);
    for (size_t i = 0; residual && scale < 1e30 && i < p->n; i++) {
        double want = before[i] + (m->reduced ? (double)mean[i] : 0);
        must(w->run, E6, fabs(want - residual[i]) <= 0x1p-21 * scale + 0x1p-140, /* the scale of a frame */
             "tensor %zu, value %zu: the owner's residual is %.9g instead of %.9g", p->tensor, p->first + i,
             residual[i], want);
    }
}

/* E6b: what this rank averaged is either in the results or in its residual of answers. */
static void check_owned(reduction *w, member *m, const common *c)
{
    for (const part_place *p = first_part(&w->group, m->o->rank); p < first_part(&w->group, m->o->rank + 1); p++) {
        const tlc_part part = object_part(m->o, p->index);
        const float *before = part.residual ? m->owned_before + p->at : NULL, *mean = m->owned_given + p->at;
        if (!c->failed)
            check_answer(m->o, p, before, part.residual, mean, m->out, m->o->dtype);
        else if (m->reduced && !part.residual)
            m->o->expected.dropped += p->n;
        else
            check_failed_owner(w, m, p, part.residual);
    }
}

/* E6a with gather: the results are the means. The first to have them checks them; all others still are in this step. */
static void check_gathered(reduction *w, const member *m)
{
    static const double errors[] = {0, 0x1p-10, 0x1p-7};
    float *wide = take(w->run, w->run->sc.values * sizeof *wide);

    widen(m->o->dtype, m->out, wide, w->run->sc.values);
    for (const part_place *p = w->group.part; p < w->group.part + w->group.parts; p++)
        check_mean(&w->group, p, w->objects, w->pushes, common_of(w, m->o->step)->taken, wide + p->at,
                   errors[m->o->dtype]);
    give(w->run, wide);
}

static void check_masks(reduction *w, member *m, const common *c)
{
    run *r = w->run;
    float filled = 3.5f, *momentum[MOST_TENSORS];

    if (!falls(drawn(r->sc.seed, ABOUT_MASK, m->o->step, m->o->rank, 0), r->sc.rate_mask))
        return;
    for (size_t t = 0; t < r->sc.count; t++) {
        momentum[t] = m->momentum + r->sc.tensor[t].at;
        for (size_t i = 0; i < r->sc.tensor[t].n; i++)
            momentum[t][i] = filled;
    }
    must(r, CALLS, !IN_MODE(r, tlc_allreduce_mask(m->o->it, momentum)), "mask");
    check_gaps(r, m->momentum, sizeof(float), "momentum");
    for (const part_place *p = w->group.part; p < w->group.part + w->group.parts; p++)
        check_mask(m->o, &m->push, p, !c->failed, m->momentum, filled);
}

int step_pull(reduction *w, member *m)
{
    run *r = w->run;
    object *o = m->o;
    tlc_message from[MOST_RANKS] = {{NULL, 0}};
    void *out[MOST_TENSORS];
    common *c = common_of(w, o->step);

    list_messages(w, m, from);
    if (!pull_damaged(w, m, from))
        return 0;
    try_wrong_messages(w, m, from);
    if (is_gathered(w))
        c->reduced = 0;
    point_at(r, m->out, dtype_size[o->dtype], (const void **)out);
    clear_results(r, o->dtype, m->out);
    tlc_status status = IN_MODE(r, tlc_allreduce_pull(o->it, from, out));
    check_end(w, m, status);
    if (c->failed)
        must(r, E1, all_bytes(m->out, results_size(r, o->dtype), 0xa5), "a failed step wrote results");
    else
        check_results(w, m);
    if (is_gathered(w) && !c->failed && !(c->ended & (c->ended - 1)))
        check_gathered(w, m);
    for (uint32_t i = 0; i < w->ranks; i++)
        if (i != o->rank && (is_gathered(w) || is_owner(w, i)))
            o->expected.received += from[i].len;
    check_pushed(w, m, c);
    check_owned(w, m, c);
    o->expected.steps++;
    o->expected.failed += (uint64_t)c->failed;
    o->step++;
    object_check(o);
    check_masks(w, m, c);
    if (!(c->ended & (c->ended - 1))) { /* this rank was the first */
        r->found->steps++;
        r->found->failed += (uint64_t)c->failed;
    }
    tell(r, "step %llu: rank %u pulls: %s", (unsigned long long)c->step, o->rank, object_outcome(o, 0).sentence);
    return 1;
}
