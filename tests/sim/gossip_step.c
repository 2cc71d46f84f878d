/* SPDX-License-Identifier: MIT
 *
 * Push and pull of a node, and what must be true after them.
 */
#include "gossip.h"
#include "tasks.h"

/* ---- push -------------------------------------------------------------------------------------------------------- */

/* The node tells that it stayed where it was. bad, tensor: as draw_moved says. */
static void check_push(const gossip *w, node *n, size_t bad, size_t tensor)
{
    uint64_t step = n->o->step;
    blame b = blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL);

    if (n->stayed[step])
        b = blame_of(CAUSE(TLC_ERR_NONFINITE), n->o->rank, bad == 1 && !is_huge(w, n) ? tensor : TLC_ALL, 0, NULL);
    n->at_fault[step] = check_outcome(n->o, 0, TLC_OK, b).tensor;
    must(w->run, CALLS, !n->stayed[step] || n->at_fault[step] < w->run->sc.count, "a node that stays tells no tensor");
}

/* The bytes of all values, in binary32. */
static uint64_t float_bytes(const run *r)
{
    uint64_t bytes = 0;

    for (size_t t = 0; t < r->sc.count; t++)
        bytes += r->sc.tensor[t].n * sizeof(float);
    return bytes;
}

static void count_push(const gossip *w, node *n, size_t len)
{
    tlc_exchange_stats *e = &n->o->expected;
    uint64_t bytes = float_bytes(w->run);

    for (size_t i = 0; i < n->edges->degree; i++) {
        e->sent += is_lost(n, i) ? 0 : len;
        e->float_bytes += is_lost(n, i) || n->failed[n->o->step] ? 0 : bytes;
    }
    if (n->stayed[n->o->step]) {
        e->failed++;
        e->dropped += bytes / sizeof(float);
    }
}

void node_push(gossip *w, node *n)
{
    run *r = w->run;
    object *o = n->o;
    uint64_t step = o->step, sum;
    const void *moved[MOST_TENSORS];
    tlc_message to = {NULL, 0};
    size_t tensor = 0, bad = draw_moved(w, n, &tensor);

    point_at(r, n->moved, sizeof(float), moved);
    sum = digest_of(n->moved, r->sc.values * sizeof(float));
    tlc_status status = IN_MODE(r, tlc_gossip_push(o->it, (const float *const *)moved, &to));
    must(r, CALLS, !status && to.len, "push: %s", tlc_status_string(status));
    must(r, CALLS, sum == digest_of(n->moved, r->sc.values * sizeof(float)), "push changed what the node moved to");
    n->sent[PUSHES][step] = blob_copy(r, to);
    n->has_pushed = 1;
    digest(r, OF_PUSH, step, o->rank, to.data, to.len);
    note_frames(w, n, n->sent[PUSHES][step], !bad);
    count_push(w, n, to.len);
    check_push(w, n, bad, tensor);
    check_model(w, n, step + 1);
    object_check(o);
    tell(r, "step %llu: node %u pushes%s", (unsigned long long)step, o->rank,
         n->stayed[step] ? ", and stays where it was" : "");
}

void check_again(gossip *w, const node *n, uint64_t step)
{
    const uint64_t next = n->o->step + (n->has_pushed ? 1 : 0);
    const uint32_t keep = w->run->sc.keep > 2 ? w->run->sc.keep : 2;
    tlc_message again = {NULL, 0};
    tlc_status status = tlc_gossip_again(n->o->it, step, &again);
    int kept = step >= n->kept_from && step < next && step + keep >= next;

    must(w->run, CALLS, status == (kept ? TLC_OK : TLC_ERR_PARAM), "again of step %llu in step %llu: %s",
         (unsigned long long)step, (unsigned long long)n->o->step, tlc_status_string(status));
    if (kept)
        must(w->run, CALLS,
             again.len == n->sent[PUSHES][step]->len && same(again.data, n->sent[PUSHES][step]->data, again.len),
             "again of step %llu: other bytes", (unsigned long long)step);
}

/* ---- pull -------------------------------------------------------------------------------------------------------- */

/* That of a lost neighbour must not be read. */
static void list_pushes(const gossip *w, const node *n, tlc_message *from)
{
    for (size_t i = 0; i < n->edges->degree; i++)
        from[i] = waits_for(w, n, PUSHES, i) ? blob_message(inbox_of(n, PUSHES, n->o->step, i)->bytes)
                                             : (tlc_message){(const void *)(uintptr_t)64, 77};
}

/* Who stayed where it was, in the order of neighbours, and whose frames were taken. spoiled: as spoil_push says. */
static void check_end(const gossip *w, node *n, size_t spoiled)
{
    uint64_t step = n->o->step;
    uint8_t taken[MOST_NODES / 8] = {0};
    blame b = blame_of(CAUSE(TLC_OK), TLC_NOBODY, TLC_ALL, 0, NULL);

    taken[n->o->rank / 8] |= (uint8_t)(1 << n->o->rank % 8);
    for (size_t i = n->edges->degree; i-- > 0;) {
        const node *from = neighbour_of(w, n, i);
        if (is_lost(n, i))
            continue;
        if (from->stayed[step])
            b = blame_of(CAUSE(TLC_ERR_NONFINITE), from->o->rank, from->at_fault[step], 0, NULL);
        if (!from->failed[step] && i != spoiled)
            taken[from->o->rank / 8] |= (uint8_t)(1 << from->o->rank % 8);
    }
    if (spoiled < n->edges->degree)
        b = blame_of(CAUSE(TLC_ERR_NONFINITE), n->edges->neighbour[spoiled], TLC_ALL, 0, NULL);
    const tlc_outcome outcome = check_outcome(n->o, 0, TLC_OK, b);
    must(w->run, CALLS, outcome.taken && same(outcome.taken, taken, (w->nodes + 7) / 8), "pull: others were taken");
}

int node_pull(gossip *w, node *n)
{
    run *r = w->run;
    object *o = n->o;
    tlc_message from[MOST_NODES];

    list_pushes(w, n, from);
    if (!take_damaged(w, n, PUSHES, from))
        return 0;
    try_wrong_messages(w, n, PUSHES, from);
    const size_t spoiled = spoil_push(w, n, from);
    tlc_status status = IN_MODE(r, tlc_gossip_pull(o->it, n->edges->degree ? from : NULL));
    must(r, CALLS, !status, "pull: %s (%s)", tlc_status_string(status), object_outcome(o, 0).sentence);
    check_end(w, n, spoiled);
    for (size_t i = 0; i < n->edges->degree; i++)
        o->expected.received += is_lost(n, i) ? 0 : from[i].len;
    if (spoiled < n->edges->degree)
        n->lost |= UINT32_C(1) << spoiled;
    check_lost(w, n);
    o->expected.steps++;
    o->step++;
    n->has_pushed = 0;
    object_check(o);
    check_model(w, n, o->step);
    digest(r, OF_RESULT, o->step, o->rank, n->model[o->step], r->sc.values * sizeof(float));
    tell(r, "step %llu: node %u pulls: %s", (unsigned long long)o->step - 1, o->rank, object_outcome(o, 0).sentence);
    return 1;
}
