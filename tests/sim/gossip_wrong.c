/* SPDX-License-Identifier: MIT
 *
 * Messages that pull and greet must refuse, and calls out of turn.
 */
#include "forge.h"
#include "gossip.h"
#include "stranger.h"
#include "tasks.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* A call with a message at fault: an error that names its sender, and no change. */
static void take_wrong(gossip *w, node *n, int kind, const tlc_message *from, blame b)
{
    object *o = n->o;
    const frozen before = freeze(o, NULL, 0);
    tlc_status status = kind == PUSHES ? tlc_gossip_pull(o->it, from) : tlc_gossip_greet(o->it, from);

    must(w->run, CALLS, status && (b.causes & CAUSE(status)), "a wrong message of node %u: %s", b.rank,
         tlc_status_string(status));
    b.causes = CAUSE(status);
    (void)check_outcome(o, 0, status, b);
    check_frozen(o, &before, kind == PUSHES ? "pull of a wrong message" : "greet with a wrong message");
    check_model(w, n, o->step + (n->has_pushed ? 1 : 0));
}

int take_damaged(gossip *w, node *n, int kind, const tlc_message *from)
{
    const uint64_t step = n->o->step;
    blame b = blame_of(CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM) | CAUSE(TLC_ERR_VERSION), ANYONE, TLC_ALL, 0,
                       NULL);
    uint32_t damaged = 0;

    for (size_t i = n->edges->degree; i-- > 0;)
        if (waits_for(w, n, kind, i) && inbox_of(n, kind, step, i)->condition == DAMAGED) {
            b.rank = n->edges->neighbour[i]; /* the first one is told */
            damaged |= UINT32_C(1) << i;
        }
    if (!damaged)
        return 1;
    take_wrong(w, n, kind, from, b);
    for (size_t i = 0; i < n->edges->degree; i++) {
        inbox *in = inbox_of(n, kind, step, i);
        if (!(damaged >> i & 1))
            continue;
        blob_drop(w->run, in->bytes);
        *in = (inbox){.tries = in->tries};
    }
    return 0;
}

/* Gives these bytes in place of the right ones. */
static void try_bytes(gossip *w, node *n, int kind, tlc_message *from, size_t i, tlc_message wrong, unsigned causes,
                      uint64_t got)
{
    const tlc_message right = from[i];

    from[i] = wrong;
    take_wrong(w, n, kind, from, blame_of(causes, n->edges->neighbour[i], TLC_ALL, got, NULL));
    from[i] = right;
}

/* As above, and drops them. NULL: there is nothing to try. */
static void try_blob(gossip *w, node *n, int kind, tlc_message *from, size_t i, blob *wrong, unsigned causes)
{
    if (wrong)
        try_bytes(w, n, kind, from, i, blob_message(wrong), causes, 0);
    blob_drop(w->run, wrong);
}

/* Tries what a broken or hostile neighbour may send. */
static void try_forged(gossip *w, node *n, int kind, tlc_message *from, size_t i, uint64_t draw)
{
    run *r = w->run;
    const node *neighbour = neighbour_of(w, n, i);
    int full = neighbour->is_full[n->o->step];
    unsigned causes;
    blob *forged = forge_head(r, from[i], mixed(draw), &causes);

    try_blob(w, n, kind, from, i, forged, causes);
    if (kind == PUSHES || full)
        try_blob(w, n, kind, from, i, forge_frame(r, from[i], draw), BAD_FRAME);
    if (kind == HELLOS && full)
        try_blob(w, n, kind, from, i, forge_last_value(r, from[i]), CAUSE(TLC_ERR_NONFINITE));
    if (kind == HELLOS && !full && !is_lost(n, i))
        try_blob(w, n, kind, from, i, forge_last_byte(r, from[i]), CAUSE(TLC_ERR_PARAM)); /* of the digest */
}

/* A message of a node that is not one of the run. */
static void try_stranger(gossip *w, node *n, int kind, tlc_message *from, size_t i, uint64_t draw)
{
    uint32_t rank = n->edges->neighbour[i];

    try_blob(w, n, kind, from, i,
             kind == PUSHES ? stranger_push(w->run, &w->group, ROLE_NODE, rank, draw)
                            : stranger_hello(w->run, &w->group, rank, draw),
             CAUSE(TLC_ERR_PARAM));
    if (kind == HELLOS)
        try_blob(w, n, kind, from, i, stranger_row(w->run, &w->group, rank, n->o->rank), CAUSE(TLC_ERR_PARAM));
}

void try_wrong_messages(gossip *w, node *n, int kind, tlc_message *from)
{
    run *r = w->run;
    uint64_t step = n->o->step,
             draw = drawn(r->sc.seed, ABOUT_WRONG_MESSAGE, step << 1 | (unsigned)kind, n->o->rank, 0);
    int forged = falls(mixed(draw), 4 * r->sc.rate[FAULT_FORGED]);
    size_t degree = n->edges->degree, i = degree ? (size_t)below(draw, degree) : 0, j = degree ? (i + 1) % degree : 0;

    if (!degree || !waits_for(w, n, kind, i))
        return;
    r->found->injected[FAULT_FORGED] += (uint64_t)forged;
    if (forged)
        try_forged(w, n, kind, from, i, draw);
    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    r->found->injected[FAULT_WRONG]++;
    const node *neighbour = neighbour_of(w, n, i);
    const tlc_message right = from[i];
    if (kind == PUSHES) /* greet takes none */
        try_bytes(w, n, kind, from, i, (tlc_message){NULL, 0}, CAUSE(TLC_ERR_CORRUPT), 0);
    try_bytes(w, n, kind, from, i, (tlc_message){right.data, right.len - 1},
              CAUSE(TLC_ERR_CORRUPT) | CAUSE(TLC_ERR_CHECKSUM), 0);
    if (neighbour->sent[kind][step - 1])
        try_bytes(w, n, kind, from, i, blob_message(neighbour->sent[kind][step - 1]), CAUSE(TLC_ERR_ORDER), step - 1);
    if (neighbour->sent[!kind][step])
        try_bytes(w, n, kind, from, i, blob_message(neighbour->sent[!kind][step]), CAUSE(TLC_ERR_PARAM), 0);
    if (j != i && waits_for(w, n, kind, j))
        try_bytes(w, n, kind, from, i, from[j], CAUSE(TLC_ERR_PARAM), 0);
    if (n->sent[kind][step])
        try_bytes(w, n, kind, from, i, blob_message(n->sent[kind][step]), CAUSE(TLC_ERR_PARAM), 0);
    if (step == 1)
        try_stranger(w, n, kind, from, i, draw);
}

size_t spoil_push(gossip *w, const node *n, tlc_message *from)
{
    run *r = w->run;
    const uint64_t draw = drawn(r->sc.seed, ABOUT_FORGERY, n->o->step, n->o->rank, 0);
    const size_t degree = n->edges->degree, i = degree ? (size_t)below(draw, degree) : 0;
    const blob *spoiled;

    if (!degree || !falls(draw, r->sc.rate[FAULT_FORGED]) || !waits_for(w, n, PUSHES, i))
        return degree;
    spoiled = forge_last_value(r, from[i]);
    if (!spoiled)
        return degree;
    r->found->injected[FAULT_FORGED]++;
    from[i] = blob_message(spoiled);
    tell(r, "step %llu: a push of node %u to node %u has a NaN", (unsigned long long)n->o->step, n->edges->neighbour[i],
         n->o->rank);
    return i;
}

/* ---- calls out of turn ------------------------------------------------------------------------------------------- */

static void refuse_out_of_turn(object *o, tlc_status got, const frozen *before, const char *call)
{
    must(o->run, CALLS, got == TLC_ERR_ORDER, "%s out of turn: %s", call, tlc_status_string(got));
    (void)check_outcome(o, 0, TLC_ERR_ORDER, blame_of(CAUSE(TLC_ERR_ORDER), o->rank, TLC_ALL, 0, NULL));
    check_frozen(o, before, call);
}

static void refuse_in_step(object *o, const float *const *moved)
{
    const tlc_message from[MOST_NODES] = {{NULL, 0}};
    const frozen before = freeze(o, NULL, 0);
    tlc_message to = {NULL, 0};
    size_t written;

    for (size_t t = 0; t < o->run->sc.count; t++)
        must(o->run, CALLS, !tlc_gossip_mean(o->it, t), "a mean between push and pull");
    refuse_out_of_turn(o, tlc_gossip_push(o->it, moved, &to), &before, "push");
    refuse_out_of_turn(o, tlc_gossip_hello(o->it, 1, &to), &before, "hello");
    refuse_out_of_turn(o, tlc_gossip_greet(o->it, from), &before, "greet");
    refuse_out_of_turn(o, object_load(o, from, 1), &before, "state_load");
    refuse_out_of_turn(o, tlc_gossip_join(o->it, o->step, NULL), &before, "join");
    must_refuse(o, object_try_save(o, &written), TLC_ERR_ORDER);
}

static void refuse_between(object *o, uint64_t draw, const void **moved)
{
    const tlc_message from[MOST_NODES] = {{NULL, 0}};
    const frozen before = freeze(o, NULL, 0);
    tlc_message to = {NULL, 0};

    refuse_out_of_turn(o, tlc_gossip_pull(o->it, from), &before, "pull");
    must_refuse(o, tlc_gossip_push(o->it, (const float *const *)moved, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_hello(o->it, 0, NULL), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_again(o->it, o->step, &to), TLC_ERR_ORDER);
    if (!hide_gradient(o, draw, moved))
        return;
    must_refuse(o, tlc_gossip_push(o->it, (const float *const *)moved, &to), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_push(o->it, NULL, &to), TLC_ERR_PARAM);
}

void node_refuse_calls(const gossip *w, node *n)
{
    const run *r = w->run;
    object *o = n->o;
    uint64_t draw = drawn(r->sc.seed, ABOUT_WRONG_CALL, o->step, o->rank, (uint64_t)n->has_pushed);
    const void *moved[MOST_TENSORS];
    tlc_message to = {NULL, 0};

    if (!falls(draw, r->sc.rate[FAULT_WRONG]))
        return;
    point_at(r, n->moved, sizeof(float), moved);
    if (n->has_pushed)
        refuse_in_step(o, (const float *const *)moved);
    else
        refuse_between(o, draw, moved);
    must_refuse(o, tlc_gossip_again(o->it, 0, &to), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_again(o->it, o->step + 1, &to), TLC_ERR_ORDER);
    must_refuse(o, tlc_gossip_lose(o->it, n->edges->degree), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_set_codec(o->it, TLC_ALL, "3lc"), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_set_codec(o->it, TLC_ALL, "natural:rounding=nearest"), TLC_ERR_PARAM);
    must_refuse(o, tlc_gossip_set_codec(o->it, r->sc.count, "raw"), TLC_ERR_PARAM);
}
