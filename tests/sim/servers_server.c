/* SPDX-License-Identifier: MIT
 *
 * The calls of a server, and what must be true after each of them.
 */
#include "servers.h"
#include "tasks.h"
#include <math.h>

static const unsigned damage = CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM) | CAUSE(TLC_ERR_VERSION);

/* ---- push -------------------------------------------------------------------------------------------------------- */

void server_push_damaged(cluster *w, server_node *n, const blob *bytes)
{
    object *o = n->o;
    tlc_push_info info;
    frozen before = freeze(o, NULL, 0);
    tlc_status status;

    memset(&info, 0x77, sizeof info);
    info.struct_size = sizeof info;
    const tlc_push_info untouched = info;
    status = tlc_server_push(o->it, blob_message(bytes), &info);
    must(w->run, CALLS, CAUSE(status) & damage, "push of a damaged message: %s", tlc_status_string(status));
    must(w->run, E1, same(&info, &untouched, sizeof info), "push of a damaged message wrote its info");
    (void)check_outcome(o, 0, status, blame_of(CAUSE(status), TLC_NOBODY, TLC_ALL, 0, NULL));
    check_frozen(o, &before, "push of a damaged message");
}

/* What the outcome of a push that was read says: whether its gradient was not finite. */
static blame blame_of_push(const cluster *w, uint32_t worker, uint64_t step)
{
    const pushed *p = &w->worker[worker].push;

    if (p->step == step && p->kind == PUSH_FAILED)
        return blame_of(CAUSE(TLC_ERR_NONFINITE), worker, TLC_ALL, 0, "worker");
    return blame_of(CAUSE(TLC_OK) | (p->step == step ? 0 : CAUSE(TLC_ERR_NONFINITE)), ANYONE, TLC_ALL, 0, NULL);
}

void server_push(cluster *w, server_node *n, uint32_t worker, uint64_t step, blob *bytes)
{
    run *r = w->run;
    object *o = n->o;
    tlc_push_info info = {.struct_size = sizeof info};
    int late = step < o->step || n->reduced, repeated = !late && n->push[worker];
    tlc_status status = IN_MODE(r, tlc_server_push(o->it, blob_message(bytes), &info));

    must(r, CALLS, !status, "push of worker %u to server %u: %s (%s)", worker, o->rank, tlc_status_string(status),
         object_outcome(o, 0).sentence);
    must(r, CALLS, info.worker == worker && info.step == step, "info: worker %u, step %llu", info.worker,
         (unsigned long long)info.step);
    must(r, CALLS, info.late == late && info.repeated == repeated, "info: late %d, repeated %d", info.late,
         info.repeated);
    (void)check_outcome(o, 0, TLC_OK, blame_of_push(w, worker, step));
    o->expected.late += (uint64_t)late;
    if (!late && !repeated) {
        n->push[worker] = blob_keep(bytes);
        n->came++;
        o->expected.received += bytes->len;
    }
    must(r, CALLS, tlc_server_ready(o->it) == (!n->reduced && n->came + backup_of(w) >= w->workers),
         "ready is %d with %u pushes", tlc_server_ready(o->it), n->came);
    object_check(o);
    if (late)
        r->found->injected[FAULT_LATE]++;
}

/* ---- reduce ------------------------------------------------------------------------------------------------------ */

/* Notes the residuals of answers. */
static void note_owned(const cluster *w, const server_node *n, float *owned)
{
    for (const part_place *p = first_part(&w->group, n->o->rank); p < first_part(&w->group, n->o->rank + 1); p++) {
        const tlc_part part = object_part(n->o, p->index);
        if (part.residual)
            memcpy(owned + p->at, part.residual, part.n * sizeof(float));
    }
}

/* Who takes part, and why somebody does not: a gradient that was not finite comes before a bad frame. */
static verdict expect(const cluster *w, const server_node *n)
{
    verdict v = {.blame = blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL)};
    uint32_t pushes = 0, taken = 0, failed = 0, forged = 0;

    for (uint32_t i = 0; i < w->workers; i++) {
        const pushed *p = &w->worker[i].push;
        if (!n->push[i])
            continue;
        pushes += p->kind == PUSH_GOOD || p->kind == PUSH_FAILED;
        if (p->kind == PUSH_FAILED && !failed++)
            v.blame = blame_of(CAUSE(TLC_ERR_NONFINITE), i, TLC_ALL, 0, "worker");
        if (p->kind == PUSH_GOOD && (w->worker[i].forged >> n->o->rank & 1) && !failed)
            v.blame = blame_of(BAD_FRAME, forged++ ? ANYONE : i, TLC_ALL, 0, "worker");
        if (p->kind != PUSH_GOOD || (w->worker[i].forged >> n->o->rank & 1))
            continue;
        v.taken[i / 8] |= (uint8_t)(1 << i % 8);
        taken++;
    }
    v.failed = pushes > 0 && taken == 0;
    return v;
}

/* Checks the means. A mean that is not finite fails the step. */
static void check_means(cluster *w, const server_node *n, verdict *v, tlc_status status)
{
    certainty worst = NO;

    for (const part_place *p = first_part(&w->group, n->o->rank); p < first_part(&w->group, n->o->rank + 1); p++) {
        const certainty c = overflows(&w->group, p, w->objects, w->pushes, v->taken);
        const tlc_part part = object_part(n->o, p->index);
        worst = c > worst ? c : worst;
        must(w->run, CALLS, part.tensor == p->tensor && part.first == p->first && part.n == p->n, "a part has moved");
        if (!status)
            check_mean(&w->group, p, w->objects, w->pushes, v->taken, part.mean, 0);
    }
    must(w->run, E2, status ? worst != NO : worst != YES, "reduce: %s", object_outcome(n->o, 0).sentence);
    if (!status)
        return;
    v->failed = 1;
    v->blame = blame_of(CAUSE(TLC_ERR_NONFINITE), n->o->rank, object_outcome(n->o, 0).tensor, 0, "server");
}

void server_reduce(cluster *w, server_node *n)
{
    run *r = w->run;
    object *o = n->o;
    verdict v = expect(w, n);
    tlc_status status;

    note_owned(w, n, n->owned_before);
    status = IN_MODE(r, tlc_server_reduce(o->it));
    if (v.failed)
        must(r, E2, status == TLC_ERR_STEP, "reduce, where nobody can be taken: %s", tlc_status_string(status));
    else {
        must(r, E2, !status || status == TLC_ERR_STEP, "reduce: %s", tlc_status_string(status));
        check_means(w, n, &v, status);
    }
    n->verdict[o->step] = v;
    n->reduced = 1;
    const tlc_outcome outcome = check_outcome(o, 0, status, v.blame);
    must(r, CALLS, (outcome.taken == NULL) == v.failed, "reduce: who was taken");
    must(r, CALLS, v.failed || same(outcome.taken, v.taken, (w->workers + 7) / 8), "reduce: others were taken");
    must(r, CALLS, !tlc_server_ready(o->it), "ready after reduce");
    object_check(o);
    tell(r, "step %llu: server %u reduces: %s", (unsigned long long)o->step, o->rank, outcome.sentence);
}

/* ---- answer ------------------------------------------------------------------------------------------------------ */

/* The changes that a server makes of the means: the means themselves, smaller ones, or with a value that is not finite.
 * Returns the part that has it, or NULL. */
static const part_place *make_deltas(cluster *w, server_node *n, const float **deltas, int *given)
{
    run *r = w->run;
    uint64_t step = n->o->step, draw = drawn(r->sc.seed, ABOUT_DELTA, step, n->o->rank, 0);
    const part_place *first = first_part(&w->group, n->o->rank), *end = first_part(&w->group, n->o->rank + 1);
    const part_place *bad = NULL;

    *given = !!(draw & 3);
    for (const part_place *p = first; p < end; p++) {
        const tlc_part part = object_part(n->o, p->index);
        for (size_t i = 0; i < p->n; i++) {
            float x = n->verdict[step].failed ? 1.0f : part.mean[i];
            n->given[p->at + i] = draw & 3 ? x * -0.125f : x;
        }
        deltas[p - first] = n->given + p->at;
    }
    if (!*given || first == end || r->sc.assume_finite || !falls(draw, 2 * r->sc.rate[FAULT_NONFINITE]))
        return NULL;
    bad = first + below(draw, (uint64_t)(end - first));
    n->given[bad->at + below(mixed(draw), bad->n)] = draw & 4 ? NAN : INFINITY;
    r->found->injected[FAULT_NONFINITE]++;
    return bad;
}

/* After an answer that said that the step failed, the residuals are those before it. */
static void check_untouched(cluster *w, server_node *n)
{
    for (const part_place *p = first_part(&w->group, n->o->rank); p < first_part(&w->group, n->o->rank + 1); p++) {
        const tlc_part part = object_part(n->o, p->index);
        must(w->run, E6,
             !part.residual || may_overflow(&w->run->sc) ||
                 same(part.residual, n->owned_before + p->at, p->n * sizeof(float)),
             "server %u: the residual has changed in a step that failed", n->o->rank);
    }
}

static void count_answer(cluster *w, server_node *n, size_t len, int failed)
{
    object *o = n->o;

    o->expected.steps++;
    o->expected.failed += (uint64_t)failed;
    o->expected.sent += (uint64_t)len * w->workers;
    for (const part_place *p = first_part(&w->group, o->rank); !failed && p < first_part(&w->group, o->rank + 1); p++)
        o->expected.float_bytes += p->n * sizeof(float) * w->workers;
    for (uint32_t i = 0; i < w->workers; i++) {
        uint64_t last = UINT64_MAX;
        if (!failed && is_taken(n->verdict[o->step].taken, i))
            n->last_taken[i] = o->step;
        must(w->run, CALLS, !tlc_server_taken(o->it, i, &last) && last == n->last_taken[i],
             "server %u says that it took step %llu of worker %u, not %llu", o->rank, (unsigned long long)last, i,
             (unsigned long long)n->last_taken[i]);
    }
}

void server_answer(cluster *w, server_node *n)
{
    run *r = w->run;
    object *o = n->o;
    const float *deltas[MOST_RANKS * MOST_TENSORS];
    tlc_message answer = {NULL, 0};
    verdict *v = &n->verdict[o->step];
    int given;
    const part_place *bad = make_deltas(w, n, deltas, &given);
    tlc_status status = IN_MODE(r, tlc_server_answer(o->it, given ? deltas : NULL, &answer));

    must(r, CALLS, !status && answer.len, "answer: %s, %zu bytes", tlc_status_string(status), answer.len);
    const tlc_outcome outcome = object_outcome(o, 0);
    int overflow = may_overflow(&r->sc) && outcome.cause == TLC_ERR_NONFINITE && !outcome.taken;
    if (!v->failed && (bad || overflow)) {
        v->failed = 1;
        v->blame = blame_of(CAUSE(TLC_ERR_NONFINITE), o->rank, bad ? bad->tensor : outcome.tensor, 0, "server");
    }
    (void)check_outcome(o, 0, TLC_OK, v->blame);
    must(r, CALLS, (outcome.taken == NULL) == v->failed, "answer: who was taken");
    note_owned(w, n, n->owned_after);
    if (v->failed)
        check_untouched(w, n);
    count_answer(w, n, answer.len, v->failed);
    n->answer[o->step] = blob_copy(r, answer);
    digest(r, OF_ANSWER, o->step, o->rank, answer.data, answer.len);
    for (uint32_t i = 0; i < w->workers; i++) {
        blob_drop(r, n->push[i]);
        n->push[i] = NULL;
    }
    n->came = 0;
    n->reduced = 0;
    o->step++;
    object_check(o);
    tell(r, "step %llu: server %u answers: %s", (unsigned long long)o->step - 1, o->rank, outcome.sentence);
}

blob *server_again(cluster *w, server_node *n, uint64_t step)
{
    tlc_message again = {NULL, 0};
    uint64_t now = n->o->step;
    int kept = step < now && step >= n->kept_from && step + w->run->sc.keep >= now;
    tlc_status status = tlc_server_again(n->o->it, step, &again), want = step >= now ? TLC_ERR_ORDER : TLC_ERR_PARAM;

    must(w->run, CALLS, status == (kept ? TLC_OK : want), "again of step %llu in step %llu: %s",
         (unsigned long long)step, (unsigned long long)now, tlc_status_string(status));
    if (!kept)
        return NULL;
    must(w->run, CALLS, again.len == n->answer[step]->len && same(again.data, n->answer[step]->data, again.len),
         "again of step %llu: other bytes than before", (unsigned long long)step);
    return n->answer[step];
}
