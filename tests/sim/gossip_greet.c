/* SPDX-License-Identifier: MIT
 *
 * Hellos; neighbours that are lost; nodes that join.
 */
#include "gossip.h"
#include "tasks.h"
#include <math.h>

static void check_fine(const node *n)
{
    (void)check_outcome(n->o, 0, TLC_OK, blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL));
}

void check_lost(const gossip *w, const node *n)
{
    for (size_t i = 0; i < n->edges->degree; i++)
        must(w->run, CALLS, !tlc_gossip_lost(n->o->it, i) == !is_lost(n, i), "node %u has%s lost node %u", n->o->rank,
             is_lost(n, i) ? " not" : "", n->edges->neighbour[i]);
    must(w->run, CALLS, !tlc_gossip_lost(n->o->it, n->edges->degree), "a neighbour that is none is lost");
}

/* ---- hellos ------------------------------------------------------------------------------------------------------ */

/* Makes a hello, and checks that nothing changed. */
static tlc_message make_hello(gossip *w, node *n, int full)
{
    tlc_message to = {NULL, 0};
    const frozen before = freeze(n->o, NULL, 0);
    tlc_status status = IN_MODE(w->run, tlc_gossip_hello(n->o->it, full, &to));

    must(w->run, CALLS, !status && to.len, "hello: %s", tlc_status_string(status));
    check_fine(n);
    check_frozen(n->o, &before, "hello");
    return to;
}

void node_hello(gossip *w, node *n, int full)
{
    run *r = w->run;
    uint64_t step = n->o->step;

    if (drawn(r->sc.seed, ABOUT_HELLO, step, n->o->rank, UINT64_MAX) & 1)
        (void)make_hello(w, n, !full);
    const tlc_message to = make_hello(w, n, full);
    n->sent[HELLOS][step] = blob_copy(r, to);
    n->is_full[step] = full;
    digest(r, OF_ANSWER, step, n->o->rank, to.data, to.len);
}

static void list_hellos(const gossip *w, const node *n, tlc_message *from)
{
    for (size_t i = 0; i < n->edges->degree; i++) {
        const tlc_message nothing = {(const void *)(uintptr_t)64, 0};
        from[i] = waits_for(w, n, HELLOS, i) ? blob_message(inbox_of(n, HELLOS, n->o->step, i)->bytes) : nothing;
    }
}

int node_greet(gossip *w, node *n)
{
    run *r = w->run;
    tlc_message from[MOST_NODES];
    int any = 0;

    list_hellos(w, n, from);
    for (size_t i = 0; i < n->edges->degree; i++)
        any |= from[i].len != 0;
    if (!any && drawn(r->sc.seed, ABOUT_HELLO, n->o->step, n->o->rank, 99) % 8)
        return 1;
    if (!take_damaged(w, n, HELLOS, from))
        return 0;
    try_wrong_messages(w, n, HELLOS, from);
    tlc_status status = IN_MODE(r, tlc_gossip_greet(n->o->it, n->edges->degree ? from : NULL));
    must(r, E4, !status, "greet: %s (%s)", tlc_status_string(status), object_outcome(n->o, 0).sentence);
    for (size_t i = 0; i < n->edges->degree; i++)
        if (from[i].len && neighbour_of(w, n, i)->is_full[n->o->step])
            n->lost &= ~(UINT32_C(1) << i);
    check_fine(n);
    check_lost(w, n);
    object_check(n->o);
    tell(r, "step %llu: node %u greets", (unsigned long long)n->o->step, n->o->rank);
    return 1;
}

/* ---- lose and join ----------------------------------------------------------------------------------------------- */

void node_lose(gossip *w, node *n, size_t i)
{
    tlc_status status = tlc_gossip_lose(n->o->it, i);

    must(w->run, CALLS, !status, "lose: %s", tlc_status_string(status));
    if (i & 1)
        must(w->run, CALLS, !tlc_gossip_lose(n->o->it, i), "lose, once more");
    n->lost |= UINT32_C(1) << i;
    w->run->found->injected[FAULT_LATE]++;
    check_fine(n);
    check_lost(w, n);
    object_check(n->o);
    tell(w->run, "step %llu: node %u loses node %u", (unsigned long long)n->o->step, n->o->rank,
         n->edges->neighbour[i]);
}

/* What join must refuse. */
static void refuse_joins(gossip *w, node *n, float *model, const float *const *tensors)
{
    run *r = w->run;
    object *o = n->o;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, o->step, o->rank, 99);

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    must_refuse(o, tlc_gossip_join(o->it, 0, tensors), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_join(o->it, UINT64_C(1) << 63, NULL), TLC_ERR_PARAM);
    if (n->has_pushed) {
        must_refuse(o, tlc_gossip_join(o->it, o->step, tensors), TLC_ERR_ORDER);
        must_refuse(o, tlc_gossip_join(o->it, 1, NULL), TLC_ERR_ORDER);
    }
    for (size_t t = 0; t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        if (!plan->n)
            continue;
        float *value = &model[plan->at + (size_t)below(draw, plan->n)], saved = *value;
        *value = draw >> 63 ? NAN : INFINITY;
        must_refuse(o, tlc_gossip_join(o->it, n->away.until, tensors), TLC_ERR_NONFINITE);
        *value = saved;
        const float *hidden[MOST_TENSORS];
        memcpy(hidden, tensors, r->sc.count * sizeof *hidden);
        hidden[t] = NULL;
        must_refuse(o, tlc_gossip_join(o->it, n->away.until, hidden), TLC_ERR_PARAM);
    }
}

void node_join(gossip *w, node *n, uint64_t step)
{
    run *r = w->run;
    object *o = n->o;
    uint64_t now = o->step + (n->has_pushed ? 1 : 0);
    int own = (int)(drawn(r->sc.seed, ABOUT_JOIN, o->rank, step, 1) & 1);
    float *model = draw_model(r, o->rank, MOST_STEPS + step);
    const void *tensors[MOST_TENSORS];

    point_at(r, model, sizeof(float), tensors);
    refuse_joins(w, n, model, (const float *const *)tensors);
    tlc_status status = IN_MODE(r, tlc_gossip_join(o->it, step, own ? NULL : (const float *const *)tensors));
    must(r, CALLS, !status, "join: %s", tlc_status_string(status));
    n->model[step] = own ? n->model[now] : model;
    n->estimate[step] = n->model[step];
    n->lost = (UINT32_C(1) << n->edges->degree) - 1;
    n->has_pushed = 0;
    n->kept_from = step;
    o->step = step;
    check_fine(n);
    check_lost(w, n);
    check_model(w, n, step);
    object_check(o);
    tell(r, "step %llu: node %u joins", (unsigned long long)step, o->rank);
}
