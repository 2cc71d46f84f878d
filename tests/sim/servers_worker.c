/* SPDX-License-Identifier: MIT
 *
 * The calls of a worker, and what must be true after each of them.
 */
#include "servers.h"
#include "forge.h"
#include "stranger.h"
#include "tasks.h"
#include <math.h>

/* ---- push -------------------------------------------------------------------------------------------------------- */

/* Counts the values of a gradient that wait in no residual. Sums that are not finite cannot wait either. */
static void count_waiting(worker_node *n, const gradient *g)
{
    if (n->joined && may_overflow(&n->o->run->sc))
        n->o->expected.dropped = object_stats(n->o).dropped;
    for (size_t t = 0; n->joined && !may_overflow(&n->o->run->sc) && !g->absent && !g->bad && t < n->o->run->sc.count;
         t++)
        if (object_pushes(n->o, t) && !n->o->feedback[PUSH][t])
            n->o->expected.dropped += n->o->run->sc.tensor[t].n;
}

/* Some pushes get a bad frame on their way out. */
static void forge_push(cluster *w, worker_node *n, uint32_t server)
{
    uint64_t draw = drawn(w->run->sc.seed, ABOUT_FORGERY, n->o->step, n->o->rank, server);
    blob *forged;

    if (!falls(draw, w->run->sc.rate[FAULT_FORGED]) || n->push.kind != PUSH_GOOD)
        return;
    forged = forge_frame(w->run, blob_message(n->mine[server]), draw);
    if (!forged)
        return;
    blob_drop(w->run, n->mine[server]);
    n->mine[server] = forged;
    n->forged |= 1u << server;
    w->run->found->injected[FAULT_FORGED]++;
}

void worker_push(cluster *w, worker_node *n)
{
    run *r = w->run;
    object *o = n->o;
    const void *tensors[MOST_TENSORS];
    tlc_message to[MOST_SERVERS];
    gradient g = note_gradient(&n->push, o, 0, tensors);
    uint64_t raw = digest_of(n->push.raw, results_size(r, o->dtype));
    tlc_status status = IN_MODE(r, tlc_worker_push(o->it, g.absent ? NULL : tensors, g.weight, to));

    must(r, CALLS, !status, "push: %s", tlc_status_string(status));
    must(r, CALLS, raw == digest_of(n->push.raw, results_size(r, o->dtype)), "push changed a gradient");
    note_push(&n->push, o, &g, n->joined);
    count_waiting(n, &g);
    n->forged = 0;
    for (uint32_t s = 0; s < w->servers; s++) {
        must(r, CALLS, to[s].len, "there is no push to server %u", s);
        o->expected.sent += to[s].len;
        n->mine[s] = blob_copy(r, to[s]);
        digest(r, OF_PUSH, o->step, (uint64_t)o->rank << 32 | s, to[s].data, to[s].len);
        forge_push(w, n, s);
    }
    for (size_t t = 0; n->push.kind == PUSH_GOOD && t < r->sc.count; t++)
        if (object_pushes(o, t))
            o->expected.float_bytes += r->sc.tensor[t].n * dtype_size[o->dtype];
    object_check(o);
    tell(r, "step %llu: worker %u pushes%s", (unsigned long long)o->step, o->rank,
         g.absent                      ? ", not in the round"
         : n->joined                   ? ", but only listens"
         : n->push.kind == PUSH_FAILED ? ", not finite"
                                       : "");
}

/* ---- pull: wrong messages ---------------------------------------------------------------------------------------- */

static void list_messages(const cluster *w, const worker_node *n, tlc_message *from)
{
    for (uint32_t s = 0; s < w->servers; s++)
        from[s] = blob_message(n->in[s].bytes);
}

static void pull_wrong(cluster *w, worker_node *n, const tlc_message *from, uint32_t server, blame b)
{
    void *out[MOST_TENSORS];
    object *o = n->o;
    frozen before;
    tlc_status status;

    point_at(w->run, n->out, dtype_size[o->dtype], (const void **)out);
    clear_results(w->run, o->dtype, n->out);
    before = freeze(o, n->out, results_size(w->run, o->dtype));
    status = tlc_worker_pull(o->it, from, out);
    must(w->run, CALLS, status && (b.causes & CAUSE(status)), "pull of a wrong message of server %u: %s", server,
         tlc_status_string(status));
    b.causes = CAUSE(status);
    (void)check_outcome(o, server, status, b);
    check_frozen(o, &before, "pull of a wrong message");
    must(w->run, CALLS, tlc_worker_pull(o->it, from, out) == status,
         "the same pull is refused otherwise"); /* its outcome again */
}

/* Pulls with damaged messages, and forgets them. Returns 0 if there were any. */
static int pull_damaged(cluster *w, worker_node *n, const tlc_message *from)
{
    const unsigned causes = CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM) | CAUSE(TLC_ERR_VERSION);
    int damaged = 0;

    for (uint32_t s = 0; s < w->servers; s++)
        if (n->in[s].condition == DAMAGED) {
            if (!damaged++)
                pull_wrong(w, n, from, s, blame_of(causes, s, TLC_ALL, 0, "server"));
            const tlc_outcome outcome = object_outcome(n->o, s);
            must(w->run, CALLS, (CAUSE(outcome.status) & causes) && outcome.rank == s, "server %u: %s", s,
                 outcome.sentence);
        } else if (damaged)
            (void)check_outcome(n->o, s, TLC_OK, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
    for (uint32_t s = 0; damaged && s < w->servers; s++)
        if (n->in[s].condition == DAMAGED) {
            blob_drop(w->run, n->in[s].bytes);
            n->in[s].bytes = NULL;
            n->in[s].filled = 0;
            n->in[s].condition = WHOLE;
        }
    return !damaged;
}

/* Tries what a broken or hostile server may send. */
static void try_forged_messages(cluster *w, worker_node *n, tlc_message *from, uint32_t s, uint64_t draw)
{
    const tlc_message right = from[s];
    unsigned causes;
    blob *forged = forge_head(w->run, right, mixed(draw), &causes);

    from[s] = blob_message(forged);
    pull_wrong(w, n, from, s, blame_of(causes, s, TLC_ALL, 0, "server"));
    blob_drop(w->run, forged);
    forged = forge_frame(w->run, right, draw);
    from[s] = blob_message(forged);
    if (forged)
        pull_wrong(w, n, from, s, blame_of(BAD_FRAME, s, TLC_ALL, 0, "server"));
    blob_drop(w->run, forged);
    from[s] = right;
}

static void try_wrong_messages(cluster *w, worker_node *n, tlc_message *from)
{
    run *r = w->run;
    uint64_t step = n->o->step, draw = drawn(r->sc.seed, ABOUT_WRONG_MESSAGE, step, n->o->rank, 1);
    uint32_t s = (uint32_t)below(draw, w->servers), other = (s + 1) % w->servers;
    const tlc_message right = from[s];

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    r->found->injected[FAULT_WRONG]++;
    from[s] = (tlc_message){NULL, 0};
    pull_wrong(w, n, from, s, blame_of(CAUSE(TLC_ERR_CORRUPT), s, TLC_ALL, 0, "server"));
    from[s] = (tlc_message){right.data, right.len - 1};
    pull_wrong(w, n, from, s, blame_of(CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM), s, TLC_ALL, 0, "server"));
    if (step > w->first) {
        from[s] = blob_message(w->server[s].answer[step - 1]);
        pull_wrong(w, n, from, s, blame_of(CAUSE(TLC_ERR_ORDER), s, TLC_ALL, step - 1, "server"));
    }
    from[s] = right;
    if (other != s) {
        from[s] = blob_message(n->in[other].bytes);
        pull_wrong(w, n, from, s, blame_of(CAUSE(TLC_ERR_PARAM), s, TLC_ALL, 0, "server"));
    }
    from[s] = right;
    try_forged_messages(w, n, from, s, draw);
    if (n->mine[s]) { /* a push */
        from[s] = blob_message(n->mine[s]);
        pull_wrong(w, n, from, s, blame_of(CAUSE(TLC_ERR_PARAM), s, TLC_ALL, 0, "server"));
    }
    if (step == 1) {
        blob *strange = stranger_answer(r, &w->group, ROLE_SERVER, s, draw);
        from[s] = blob_message(strange);
        pull_wrong(w, n, from, s, blame_of(CAUSE(TLC_ERR_PARAM), s, TLC_ALL, 0, "server"));
        blob_drop(r, strange);
    }
    from[s] = right;
}

/* ---- pull: what must be true after it ---------------------------------------------------------------------------- */

/* A push that a server did not take is back in the residual. */
static void check_pushed(cluster *w, worker_node *n)
{
    object *o = n->o;
    int pending = n->mine[0] != NULL;

    for (size_t p = 0; pending && p < w->group.parts; p++) {
        const part_place *part = &w->group.part[p];
        const verdict *v = verdict_of(w, part->owner, o->step);
        if (n->push.kind == PUSH_GOOD && (v->failed || !is_taken(v->taken, o->rank)))
            o->expected.dropped += check_returned(o, &n->push, part);
        else if (object_pushes(o, part->tensor))
            check_kept(o, &n->push, part);
    }
    for (uint32_t s = 0; pending && n->push.kind == PUSH_GOOD && s < w->servers; s++)
        o->expected.late += verdict_of(w, s, o->step)->failed || !is_taken(verdict_of(w, s, o->step)->taken, o->rank);
}

static void check_verdicts(cluster *w, const worker_node *n)
{
    for (uint32_t s = 0; s < w->servers; s++) {
        const verdict *v = verdict_of(w, s, n->o->step);
        const tlc_outcome outcome = check_outcome(n->o, s, v->failed ? TLC_ERR_STEP : TLC_OK, v->blame);
        must(w->run, CALLS, (outcome.taken == NULL) == v->failed, "who was taken by server %u", s);
        if (v->blame.who && !strcmp(v->blame.who, "worker")) {
            char word[32];
            snprintf(word, sizeof word, ", says server %u", s);
            must(w->run, CALLS, strstr(outcome.sentence, word), "\"%s\" does not end with\"%s\"", outcome.sentence,
                 word);
        }
        must(w->run, CALLS, v->failed || same(outcome.taken, v->taken, (w->workers + 7) / 8),
             "server %u says that others were taken", s);
    }
}

/* E4: the results are those of the observer. Parts of servers where the step failed are not written. */
static void check_results(cluster *w, const object *o, const uint8_t *out)
{
    run *r = w->run;
    size_t size = dtype_size[o->dtype];
    uint8_t *want = take(r, r->sc.values * size);

    check_gaps(r, out, size, "results");
    for (size_t p = 0; p < w->group.parts; p++) {
        const part_place *part = &w->group.part[p];
        if (verdict_of(w, part->owner, o->step)->failed) {
            must(r, E1, is_cleared(r, o->dtype, out, part->at, part->n), "a server whose step failed wrote results");
            continue;
        }
        narrow(w->result[o->step] + part->at, o->dtype, want, part->n);
        must(r, E4, same(want, out + part->at * size, part->n * size), "worker %u has other results", o->rank);
    }
    give(r, want);
}

static void check_masks(cluster *w, worker_node *n, uint64_t step, int pending)
{
    run *r = w->run;
    float filled = -2.25f, *momentum[MOST_TENSORS];

    if (!falls(drawn(r->sc.seed, ABOUT_MASK, step, n->o->rank, 0), r->sc.rate_mask))
        return;
    for (size_t t = 0; t < r->sc.count; t++) {
        momentum[t] = n->momentum + r->sc.tensor[t].at;
        for (size_t i = 0; i < r->sc.tensor[t].n; i++)
            momentum[t][i] = filled;
    }
    must(r, CALLS, !IN_MODE(r, tlc_worker_mask(n->o->it, momentum)), "mask");
    check_gaps(r, n->momentum, sizeof(float), "momentum");
    for (size_t p = 0; p < w->group.parts; p++) {
        const verdict *v = verdict_of(w, w->group.part[p].owner, step);
        int taken = pending && !v->failed && is_taken(v->taken, n->o->rank);
        check_mask(n->o, &n->push, &w->group.part[p], taken, n->momentum, filled);
    }
}

void check_pull(cluster *w, object *o, tlc_status status, const tlc_message *from)
{
    int failed = 0;

    for (uint32_t s = 0; s < w->servers; s++) {
        failed |= verdict_of(w, s, o->step)->failed;
        o->expected.received += from[s].len;
    }
    must(w->run, E2, status == (failed ? TLC_ERR_STEP : TLC_OK), "pull: %s (%s)", tlc_status_string(status),
         object_outcome(o, 0).sentence);
    o->expected.steps++;
    o->expected.failed += (uint64_t)failed;
}

int worker_pull(cluster *w, worker_node *n)
{
    run *r = w->run;
    object *o = n->o;
    tlc_message from[MOST_SERVERS];
    void *out[MOST_TENSORS];
    int pending = n->mine[0] != NULL;

    list_messages(w, n, from);
    if (!pull_damaged(w, n, from))
        return 0;
    try_wrong_messages(w, n, from);
    point_at(r, n->out, dtype_size[o->dtype], (const void **)out);
    clear_results(r, o->dtype, n->out);
    check_pull(w, o, IN_MODE(r, tlc_worker_pull(o->it, from, out)), from);
    check_verdicts(w, n);
    check_pushed(w, n);
    check_results(w, o, n->out);
    digest(r, OF_RESULT, o->step, o->rank, n->out, results_size(r, o->dtype));
    if (o->dtype == TLC_F32) {
        float *change = memcpy(take(r, results_size(r, TLC_F32)), n->out, results_size(r, TLC_F32)); /* aligned */
        apply_results(w, o->step, change, n->model);
        give(r, change);
        must(r, E4, same(n->model, w->model[o->step], r->sc.values * sizeof(float)), "worker %u has another model",
             o->rank);
    }
    tell(r, "step %llu: worker %u pulls: %s", (unsigned long long)o->step, o->rank, object_outcome(o, 0).sentence);
    o->step++;
    object_check(o);
    check_masks(w, n, o->step - 1, pending);
    for (uint32_t s = 0; s < w->servers; s++) {
        blob_drop(r, n->older[s]);
        n->older[s] = n->mine[s];
        n->mine[s] = NULL;
        blob_drop(r, n->in[s].bytes);
        n->in[s] = (worker_slot){.filled = 0};
    }
    n->joined = 0;
    return 1;
}
