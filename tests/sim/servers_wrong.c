/* SPDX-License-Identifier: MIT
 *
 * Calls out of turn and wrong messages, at workers and servers.
 */
#include "servers.h"
#include "creation.h"
#include "forge.h"
#include "stranger.h"
#include <math.h>

static void refuse(object *o, tlc_status got, tlc_status want, const frozen *before, const char *call)
{
    must(o->run, CALLS, got == want, "%s: %s", call, tlc_status_string(got));
    for (uint32_t s = 0; s < (o->role == ROLE_WORKER ? o->group->servers : 1); s++)
        (void)check_outcome(o, s, want, blame_of(CAUSE(want), o->rank, TLC_ALL, 0, NULL));
    check_frozen(o, before, call);
}

void worker_refuse_calls(const cluster *w, worker_node *n)
{
    const run *r = w->run;
    object *o = n->o;
    int pending = n->mine[0] != NULL;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, o->step, o->rank, (uint64_t)pending);
    const tlc_message nothing = {NULL, 0};
    tlc_message to[MOST_SERVERS] = {{NULL, 0}};
    const void *grads[MOST_TENSORS];
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    size_t written;

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    point_at(r, n->push.raw, dtype_size[o->dtype], grads);
    const frozen before = freeze(o, n->out, results_size(r, o->dtype));
    if (pending) {
        refuse(o, tlc_worker_push(o->it, grads, 1, to), TLC_ERR_ORDER, &before, "push after a push");
        refuse(o, object_load(o, &nothing, 1), TLC_ERR_ORDER, &before, "state_load after a push");
        must_refuse(o, object_try_save(o, &written), TLC_ERR_ORDER);
        must_refuse(o, object_scale(o, 2), TLC_ERR_ORDER);
    } else {
        refuse(o, tlc_worker_push(o->it, grads, -1, to), TLC_ERR_PARAM, &before, "push with a weight of -1");
        must_refuse(o, tlc_worker_push(o->it, grads, INFINITY, to), TLC_ERR_PARAM);
        if (hide_gradient(o, draw, grads))
            must_refuse(o, tlc_worker_push(o->it, grads, 1, to), TLC_ERR_PARAM);
        must_refuse(o, object_scale(o, NAN), TLC_ERR_PARAM);
    }
    must_refuse(o, tlc_worker_push(o->it, grads, 1, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_pull(o->it, NULL, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_worker_outcome(o->it, w->servers, &outcome), TLC_ERR_PARAM);
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

/* A push of a worker that joins in a step. It says that nobody pushes. */
static blob *push_of_step(cluster *w, uint32_t server, uint32_t worker, uint64_t step)
{
    object *twin = object_create(w->run, &w->group, ROLE_WORKER, worker, NULL);
    tlc_message to[MOST_SERVERS];
    blob *b;

    must(w->run, CALLS, !tlc_worker_join(twin->it, step, NULL), "join of a new worker");
    must(w->run, CALLS, !tlc_worker_push(twin->it, NULL, 1, to), "push of a new worker");
    b = blob_copy(w->run, to[server]);
    object_destroy(twin);
    return b;
}

static void refuse_push(cluster *w, server_node *n, blob *b, blame want, tlc_status status)
{
    object *o = n->o;
    const frozen before = freeze(o, NULL, 0);
    tlc_push_info info = {.struct_size = sizeof info, .worker = 77};
    tlc_status got = tlc_server_push(o->it, blob_message(b), &info);

    must(w->run, CALLS, got == status, "push of a wrong message: %s instead of %s", tlc_status_string(got),
         tlc_status_string(status));
    must(w->run, E1, info.worker == 77, "push of a wrong message wrote its info");
    (void)check_outcome(o, 0, status, want);
    check_frozen(o, &before, "push of a wrong message");
    blob_drop(w->run, b);
}

/* The one status in a set. */
static tlc_status status_of(unsigned causes)
{
    return causes == CAUSE(TLC_ERR_PARAM)     ? TLC_ERR_PARAM
           : causes == CAUSE(TLC_ERR_VERSION) ? TLC_ERR_VERSION
                                              : TLC_ERR_CORRUPT;
}

static void refuse_pushes(cluster *w, server_node *n, uint64_t draw)
{
    run *r = w->run;
    const object *o = n->o;
    uint32_t i = (uint32_t)below(draw, w->workers), other = (o->rank + 1) % w->servers;
    const blame order = {CAUSE(TLC_ERR_ORDER), i, TLC_ALL, o->step + 5, "worker"},
                twice = {CAUSE(TLC_ERR_ORDER), i, TLC_ALL, 0, "worker"};
    const blame wrong = {CAUSE(TLC_ERR_PARAM), ANYONE, TLC_ALL, 0, "worker"};
    blob *b, *strange = stranger_push(r, &w->group, ROLE_WORKER, i, draw);

    refuse_push(w, n, push_of_step(w, o->rank, i, o->step + 5), order, TLC_ERR_ORDER);
    if (n->push[i] && w->worker[i].push.kind == PUSH_GOOD && !n->reduced)
        refuse_push(w, n, push_of_step(w, o->rank, i, o->step), twice, TLC_ERR_ORDER);
    if (other != o->rank)
        refuse_push(w, n, push_of_step(w, other, i, o->step), wrong, TLC_ERR_PARAM);
    if (o->step > w->first && n->answer[o->step - 1])
        refuse_push(w, n, blob_keep(n->answer[o->step - 1]), wrong, TLC_ERR_PARAM);
    if (n->held[i].bytes || n->push[i]) {
        unsigned causes;
        b = forge_head(r, blob_message(n->push[i] ? n->push[i] : n->held[i].bytes), mixed(draw), &causes);
        refuse_push(w, n, b, blame_of(causes, ANYONE, TLC_ALL, 0, NULL), status_of(causes));
    }
    if (strange)
        refuse_push(w, n, strange, wrong, TLC_ERR_PARAM);
    refuse_push(w, n, blob_copy(r, (tlc_message){NULL, 0}),
                blame_of(CAUSE(TLC_ERR_CORRUPT), TLC_NOBODY, TLC_ALL, 0, NULL), TLC_ERR_CORRUPT);
}

void server_refuse_calls(cluster *w, server_node *n)
{
    run *r = w->run;
    object *o = n->o;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, o->step, o->rank, n->reduced ? 9 : n->came ? 8 : 7);
    const float *const nothing[1] = {NULL};
    tlc_message answer = {NULL, 0};
    size_t written;

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    r->found->injected[FAULT_WRONG]++;
    const frozen before = freeze(o, NULL, 0);
    if (n->reduced || !n->came)
        refuse(o, tlc_server_reduce(o->it), TLC_ERR_ORDER, &before, "reduce out of turn");
    if (!n->reduced)
        refuse(o, tlc_server_answer(o->it, NULL, &answer), TLC_ERR_ORDER, &before, "answer out of turn");
    if (n->reduced) {
        must_refuse(o, object_scale(o, 2), TLC_ERR_ORDER);
        must_refuse(o, object_try_save(o, &written), TLC_ERR_ORDER);
        if (w->group.begin[o->rank] < w->group.begin[o->rank + 1])
            refuse(o, tlc_server_answer(o->it, nothing, &answer), TLC_ERR_PARAM, &before, "answer without a delta");
    }
    if (n->reduced || n->came)
        refuse(o, object_load(o, &answer, 1), TLC_ERR_ORDER, &before, "state_load in a step");
    must_refuse(o, tlc_server_again(o->it, o->step, &answer), TLC_ERR_ORDER);
    must_refuse(o, tlc_server_again(o->it, 0, &answer), TLC_ERR_PARAM);
    if (o->step > w->run->sc.keep + 1)
        (void)server_again(w, n, o->step - w->run->sc.keep - 1);
    if (o->step > w->first)
        (void)server_again(w, n, o->step - 1);
    must(r, CALLS, !tlc_server_ready(o->it) || (!n->reduced && n->came + backup_of(w) >= w->workers), "ready");
    refuse_pushes(w, n, draw);
}
