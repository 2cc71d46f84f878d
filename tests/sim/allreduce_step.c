/* SPDX-License-Identifier: MIT
 *
 * Push and reduce of an all-reduce, and what must be true after them.
 */
#include "allreduce.h"
#include "forge.h"
#include "tasks.h"

/* ---- what all ranks must find ------------------------------------------------------------------------------------ */

void begin_common(reduction *w, uint64_t step)
{
    common *c = common_of(w, step);

    if (c->step == step)
        return;
    give(w->run, c->exact);
    *c = (common){.step = step};
}

/* Adds a fault to those by rank. */
static void add_fault(blame *faulty, uint32_t *faults, blame b)
{
    blame *known = &faulty[b.rank];

    if (known->causes)
        b = blame_of(known->causes | b.causes, b.rank, TLC_ALL, 0, NULL);
    *known = b;
    ++*faults;
}

void add_common_fault(reduction *w, uint64_t step, blame b)
{
    add_fault(common_of(w, step)->fault, &common_of(w, step)->faults, b);
}

tlc_outcome check_blame(const reduction *w, const object *o, tlc_status status, const blame *faulty, uint32_t faults)
{
    const tlc_outcome outcome = object_outcome(o, 0);
    blame b;

    if (!faults)
        return check_outcome(o, 0, status, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    must(w->run, E2, outcome.rank < w->ranks && faulty[outcome.rank].causes, "nothing is wrong with rank %u: %s",
         outcome.rank, outcome.sentence);
    b = faulty[outcome.rank];
    b.tensor = faults == 1 ? b.tensor : TLC_ALL;
    b.got = faults == 1 ? b.got : 0;
    return check_outcome(o, 0, status, b);
}

/* ---- push -------------------------------------------------------------------------------------------------------- */

static void check_pushes(reduction *w, member *m, const tlc_message *to)
{
    run *r = w->run;

    for (uint32_t i = 0; i < w->ranks; i++) {
        must(r, CALLS, !to[i].len == !(is_gathered(w) || is_owner(w, i)), "a push of %zu bytes to rank %u", to[i].len,
             i);
        if (is_gathered(w))
            must(r, CALLS, to[i].data == to[0].data && to[i].len == to[0].len, "different pushes with gather");
        m->mine[i] = !to[i].len ? NULL : is_gathered(w) && i ? blob_keep(m->mine[0]) : blob_copy(r, to[i]);
        if (i != m->o->rank)
            m->o->expected.sent += to[i].len;
        if (to[i].len)
            digest(r, OF_PUSH, m->o->step, (uint64_t)m->o->rank << 32 | i, to[i].data, to[i].len);
    }
}

/* Some pushes get a bad frame on their way out. */
static void forge_pushes(reduction *w, member *m)
{
    m->forged = 0;
    for (uint32_t i = 0; !is_gathered(w) && i < w->ranks; i++) {
        uint64_t draw = drawn(w->run->sc.seed, ABOUT_FORGERY, m->o->step, m->o->rank, i);
        if (!m->mine[i] || !falls(draw, w->run->sc.rate[FAULT_FORGED]))
            continue;
        blob *forged = forge_frame(w->run, blob_message(m->mine[i]), draw);
        if (!forged)
            continue;
        blob_drop(w->run, m->mine[i]);
        m->mine[i] = forged;
        m->forged |= UINT64_C(1) << i;
        w->run->found->injected[FAULT_FORGED]++;
    }
}

/* The bytes of the gradients of the tensors that a rank pushes, each to its owner, or with gather to all; to others. */
static uint64_t pushed_bytes(const reduction *w, const object *o)
{
    uint64_t bytes = 0;

    for (size_t t = 0; is_gathered(w) && t < o->run->sc.count; t++)
        if (object_pushes(o, t))
            bytes += o->run->sc.tensor[t].n * dtype_size[o->dtype] * (w->ranks - 1);
    for (size_t p = 0; !is_gathered(w) && p < w->group.parts; p++)
        if (object_pushes(o, w->group.part[p].tensor) && w->group.part[p].owner != o->rank)
            bytes += w->group.part[p].n * dtype_size[o->dtype];
    return bytes;
}

void step_push(reduction *w, member *m)
{
    run *r = w->run;
    object *o = m->o;
    const void *tensors[MOST_TENSORS];
    tlc_message to[MOST_RANKS];
    gradient g = note_gradient(&m->push, o, 0, tensors);
    uint64_t raw = digest_of(m->push.raw, results_size(r, o->dtype));
    tlc_status status = IN_MODE(r, tlc_allreduce_push(o->it, g.absent ? NULL : tensors, g.weight, to));

    must(r, CALLS, !status, "push: %s", tlc_status_string(status));
    must(r, CALLS, raw == digest_of(m->push.raw, results_size(r, o->dtype)), "push changed a gradient");
    begin_common(w, o->step);
    note_push(&m->push, o, &g, 0);
    check_pushes(w, m, to);
    forge_pushes(w, m);
    m->phase = PUSHED;
    if (m->push.kind == PUSH_GOOD) {
        common_of(w, o->step)->taken[o->rank / 8] |= (uint8_t)(1 << o->rank % 8);
        o->expected.float_bytes += pushed_bytes(w, o);
    }
    if (m->push.kind == PUSH_FAILED)
        add_common_fault(w, o->step, blame_of(CAUSE(TLC_ERR_NONFINITE), o->rank, object_outcome(o, 0).tensor, 0, NULL));
    object_check(o);
    tell(r, "step %llu: rank %u pushes%s", (unsigned long long)o->step, o->rank,
         g.absent                      ? ", not in the round"
         : m->push.kind == PUSH_FAILED ? ", not finite"
                                       : "");
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* The push of a rank to another owner, or NULL. */
static blob *swapped_push(const reduction *w, const member *m, uint32_t from)
{
    uint32_t to = (m->o->rank + 1) % w->ranks;

    return to != m->o->rank && w->member[from].o->step == m->o->step ? w->member[from].mine[to] : NULL;
}

/* Does this push have frames for this owner of tensors that nobody else pushes? */
static int sends_only(const reduction *w, const member *m, const slot *s)
{
    uint32_t rank = (uint32_t)(s - m->in[PUSHES]);

    for (const part_place *p = first_part(&w->group, m->o->rank); p < first_part(&w->group, m->o->rank + 1); p++)
        if (w->group.only[p->tensor] == rank + 1)
            return w->member[rank].push.kind == PUSH_GOOD && !w->member[rank].forged;
    return 0;
}

/* Gives a wrong message in place of one that came. */
static void replace(reduction *w, member *m, uint32_t from)
{
    run *r = w->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_MESSAGE, m->o->step << 8 | 1, m->o->rank, from);
    slot *s = &m->in[PUSHES][from], *other = &m->in[PUSHES][(from + 1) % w->ranks];
    blob *wrong = NULL, *swapped = swapped_push(w, m, from);

    if (!falls(draw, r->sc.rate[FAULT_WRONG]) || s->causes)
        return;
    if (draw & 1 && m->last[PUSHES][from]) {
        wrong = blob_keep(m->last[PUSHES][from]);
        s->causes = CAUSE(TLC_ERR_ORDER);
        s->got = m->o->step - 1;
    } else if (draw & 2 && other->bytes && other->condition == WHOLE && other != s && !other->causes) {
        wrong = blob_keep(other->bytes);
        s->causes = CAUSE(TLC_ERR_PARAM);
    } else if (draw & 4 && m->last[ANSWERS][from]) {
        wrong = blob_keep(m->last[ANSWERS][from]);
        s->causes = CAUSE(TLC_ERR_PARAM);
    } else if (draw & 8 && swapped) {
        wrong = blob_keep(swapped);
        s->causes = CAUSE(TLC_ERR_PARAM);
    } else if (draw & 16 && other != s && other->bytes && other->condition == WHOLE && !other->causes &&
               sends_only(w, m, other)) {
        /* frames of tensors that are only the other's */
        wrong = forge_sender(r, blob_message(other->bytes), from);
        s->causes = CAUSE(TLC_ERR_CORRUPT);
    } else if (draw & 32)
        s->causes = CAUSE(TLC_ERR_CORRUPT); /* nothing */
    if (!s->causes)
        return;
    blob_drop(r, s->bytes);
    s->bytes = wrong;
    r->found->injected[FAULT_WRONG]++;
    tell(r, "step %llu: rank %u gives a wrong push of rank %u to reduce", (unsigned long long)m->o->step, m->o->rank,
         from);
}

/* Notes the residuals of answers. */
static void note_owned(reduction *w, member *m)
{
    for (const part_place *p = first_part(&w->group, m->o->rank); p < first_part(&w->group, m->o->rank + 1); p++) {
        const tlc_part part = object_part(m->o, p->index);
        if (part.residual)
            memcpy(m->owned_before + p->at, part.residual, part.n * sizeof(float));
    }
}

/* What is wrong with the pushes that this owner has. faulty[ranks] is all 0. */
static uint32_t list_faults(reduction *w, const member *m, blame *faulty)
{
    uint32_t faults = 0;

    for (uint32_t i = 0; i < w->ranks; i++) {
        const slot *s = &m->in[PUSHES][i];
        const pushed *p = &w->member[i].push;
        blame b = blame_of(s->causes, i, TLC_ALL, s->got, NULL);
        if (!s->causes && (w->member[i].forged >> m->o->rank & 1))
            b.causes = BAD_FRAME;
        if (!b.causes && p->kind == PUSH_FAILED)
            b.causes = CAUSE(TLC_ERR_NONFINITE);
        if (!b.causes)
            continue;
        add_fault(faulty, &faults, b);
        if (p->kind != PUSH_FAILED || s->causes) /* a gradient that is not finite was known before */
            add_common_fault(w, m->o->step, b);
    }
    return faults;
}

/* Checks the means of the owner's parts, and whether one of them, or an answer, had to be found infinite. */
static void check_means(reduction *w, member *m, const tlc_outcome *outcome)
{
    const uint8_t *taken = common_of(w, m->o->step)->taken;
    const int failed = outcome->cause != TLC_OK;
    certainty worst = NO;

    for (const part_place *p = first_part(&w->group, m->o->rank); p < first_part(&w->group, m->o->rank + 1); p++) {
        const certainty c = overflows(&w->group, p, w->objects, w->pushes, taken);
        const tlc_part part = object_part(m->o, p->index);
        worst = c > worst ? c : worst;
        must(w->run, CALLS, part.tensor == p->tensor && part.first == p->first && part.n == p->n, "a part has moved");
        if (failed)
            continue;
        check_mean(&w->group, p, w->objects, w->pushes, taken, part.mean, 0);
        memcpy(m->owned_given + p->at, part.mean, part.n * sizeof(float));
    }
    /* residual + mean may overflow, too, and some codecs' scales */
    must(w->run, E2, failed ? worst != NO || may_overflow(&w->run->sc) : worst != YES, "reduce: %s", outcome->sentence);
    if (failed)
        must(w->run, CALLS, outcome->cause == TLC_ERR_NONFINITE && outcome->rank == m->o->rank, "reduce: %s",
             outcome->sentence);
}

/* Checks what the owner found. It says so with this status. */
static void check_reduce(reduction *w, member *m, tlc_status status)
{
    const object *o = m->o;
    common *c = common_of(w, o->step);
    blame faulty[MOST_RANKS] = {{.causes = 0}};
    uint32_t faults = list_faults(w, m, faulty);
    tlc_outcome outcome;

    if (faults) {
        outcome = check_blame(w, o, status, faulty, faults);
    } else {
        outcome = object_outcome(o, 0);
        check_means(w, m, &outcome);
        if (outcome.cause)
            add_common_fault(w, o->step, blame_of(CAUSE(TLC_ERR_NONFINITE), o->rank, outcome.tensor, 0, NULL));
        else
            (void)check_outcome(o, 0, TLC_OK, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    }
    m->reduced = !outcome.cause;
    must(w->run, CALLS, status == (m->reduced || !w->run->sc.optimizers ? TLC_OK : TLC_ERR_STEP), "reduce: %s",
         tlc_status_string(status));
    must(w->run, CALLS, (outcome.taken != NULL) == m->reduced, "reduce: who was taken is%s known",
         outcome.taken ? "" : " not");
    must(w->run, CALLS, !outcome.taken || same(outcome.taken, c->taken, (w->ranks + 7) / 8),
         "reduce: others were taken than those who pushed");
}

void step_reduce(reduction *w, member *m)
{
    run *r = w->run;
    object *o = m->o;
    tlc_message from[MOST_RANKS], answer = {"", 1};
    int owner = is_owner(w, o->rank);

    for (uint32_t i = 0; i < w->ranks; i++) {
        if (owner)
            replace(w, m, i);
        from[i] = blob_message(m->in[PUSHES][i].bytes);
        if (owner && i != o->rank)
            o->expected.received += from[i].len;
    }
    note_owned(w, m);
    tlc_status status = r->sc.optimizers ? IN_MODE(r, tlc_allreduce_average(o->it, from))
                                         : IN_MODE(r, tlc_allreduce_reduce(o->it, from, &answer));
    m->reduced = 0;
    if (owner)
        check_reduce(w, m, status);
    else
        (void)check_outcome(o, 0, status, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    if (r->sc.optimizers)
        step_answer(w, m, &answer);
    must(r, CALLS, !answer.len == !owner, "reduce: a message of %zu bytes", answer.len);
    m->phase = REDUCED;
    blob_drop(r, m->older);
    m->older = m->answer;
    m->answer = owner ? blob_copy(r, answer) : NULL;
    if (!owner) {
        object_check(o);
        return;
    }
    if (m->reduced)
        common_of(w, o->step)->reduced |= UINT64_C(1) << o->rank;
    o->expected.sent += answer.len * (uint64_t)(w->ranks - 1);
    for (const part_place *p = first_part(&w->group, o->rank); m->reduced && p < first_part(&w->group, o->rank + 1);
         p++)
        o->expected.float_bytes += p->n * sizeof(float) * (w->ranks - 1);
    digest(r, OF_ANSWER, o->step, o->rank, answer.data, answer.len);
    object_check(o);
    tell(r, "step %llu: rank %u reduces: %s", (unsigned long long)o->step, o->rank, object_outcome(o, 0).sentence);
}
