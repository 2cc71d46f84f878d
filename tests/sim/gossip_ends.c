/* SPDX-License-Identifier: MIT
 *
 * The end of a run of gossip: its states go on in other nodes, as many as before or not.
 */
#include "gossip.h"
#include "creation.h"
#include <math.h>

/* What a run left. */
typedef struct endings {
    checkpoint made[MOST_NODES];
    const checkpoint *state[MOST_NODES];
    uint32_t count;
} endings;

/* Saves the states of all that play to the end. */
static void save_all(gossip *w, endings *e)
{
    *e = (endings){.count = 0};
    for (uint32_t i = 0; i < w->nodes; i++) {
        if (w->node[i].phase != NODE_FINISHED)
            continue;
        e->made[i] = checkpoint_make(w->node[i].o);
        digest(w->run, OF_STATE, 0, i, e->made[i].state.data, e->made[i].state.len);
        e->state[e->count++] = &e->made[i];
    }
}

/* The node goes on with its own state. */
static void load_own(gossip *w, node *n, const gossip *old, const checkpoint *own)
{
    const node *before = &old->node[n->o->rank];

    load_same(n->o, own);
    n->model[w->first] = before->model[w->first];
    n->estimate[w->first] = before->estimate[w->first];
    n->lost = before->lost;
    for (size_t i = 0; i < n->edges->degree; i++)
        must(w->run, CALLS, !tlc_gossip_lost(n->o->it, i) == !is_lost(n, i), "a loaded state: node %u is%s lost",
             n->edges->neighbour[i], is_lost(n, i) ? " not" : "");
}

/* The model is the mean of those of a run. */
static void load_run(gossip *w, node *n, const gossip *old, const endings *e)
{
    run *r = w->run;
    float *model = new_values(r);

    load_all(n->o, e->state, e->count);
    for (size_t t = 0; t < r->sc.count; t++) {
        const tensor_plan *plan = &r->sc.tensor[t];
        const float *x = tlc_gossip_model(n->o->it, t);
        for (size_t i = 0; i < plan->n; i++) {
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < old->nodes; k++) {
                sum += old->node[k].model[w->first][plan->at + i];
                size = fmax(size, fabs((double)old->node[k].model[w->first][plan->at + i]));
            }
            must(r, E6, fabs(x[i] - sum / old->nodes) <= 0x1p-20 * size + 0x1p-140,
                 "state_load: tensor %zu, value %zu: the mean of %u models is %.9g instead of %.9g", t, i, old->nodes,
                 x[i], sum / old->nodes);
            model[plan->at + i] = x[i];
        }
    }
    must(r, E4, !n->o->rank || same(model, w->node[0].model[w->first], r->sc.values * sizeof(float)),
         "state_load: node %u has another mean", n->o->rank);
    n->model[w->first] = n->estimate[w->first] = model;
}

/* The state of a node of the other kind. */
static void refuse_other_kind(const gossip *w, node *n)
{
    group other = w->group;

    other.stranger = OTHER_ALGORITHM;
    object *o = object_create(w->run, &other, ROLE_NODE, n->o->rank, NULL);
    const tlc_message state = object_save(o);
    must_refuse(n->o, object_load(n->o, &state, 1), TLC_ERR_PARAM);
    object_destroy(o);
}

/* States of some nodes of a run, or of nodes in two steps, are no run. */
static void refuse_some(const gossip *w, node *n, const endings *e)
{
    tlc_message states[MOST_NODES];

    for (uint32_t i = 0; i < e->count; i++)
        states[i] = e->state[i]->state;
    if (e->count > 2)
        must_refuse(n->o, object_load(n->o, states, e->count - 1), TLC_ERR_PARAM);
    if (e->count == w->nodes && w->node[0].saved.step && w->node[0].saved.step != n->o->step && e->count > 1) {
        states[0] = w->node[0].saved.state;
        must_refuse(n->o, object_load(n->o, states, e->count), TLC_ERR_PARAM);
    }
}

int gossip_end(gossip *w)
{
    run *r = w->run;
    uint64_t draw = drawn(r->sc.seed, ABOUT_RECOVERY, 2, 0, 0);
    uint32_t nodes = w->nodes;
    gossip next;
    endings e;

    save_all(w, &e);
    if (e.count && falls(draw, r->sc.rate[FAULT_WRONG])) {
        node *n = &w->node[e.state[0]->rank];
        refuse_states(n->o, e.state[e.count - 1], NULL);
        refuse_some(w, n, &e);
        refuse_other_kind(w, n);
    }
    if (w->last == r->sc.steps)
        return 0;
    must(r, CALLS, e.count == nodes, "a node did not play to the end");
    if (draw & 4)
        nodes = 1 + (uint32_t)below(draw, nodes < 8 ? 2 * nodes : nodes);
    gossip_close(w);
    gossip_open(&next, r, nodes);
    next.first = w->last + 1;
    next.together = nodes == w->nodes ? 0 : next.first;
    for (uint32_t i = 0; i < nodes; i++) {
        if (nodes == w->nodes)
            load_own(&next, &next.node[i], w, e.state[i]);
        else
            load_run(&next, &next.node[i], w, &e);
        next.node[i].kept_from = next.first;
    }
    tell(r, "%u nodes go on as %u", w->nodes, nodes);
    *w = next;
    for (uint32_t i = 0; i < nodes; i++)
        w->node[i].o->group = &w->group;
    return 1;
}
