/* SPDX-License-Identifier: MIT
 *
 * A node is made: its neighbours, its models, and where tensors lie in them.
 */
#include "gossip.h"
#include "../plan/setup_make.h"
#include "../plan/sort.h"
#include "../wire/message_bound.h"

#define LINE 16 /* values of a cache line, where groups begin */

/* ---- arguments --------------------------------------------------------------------------------------------------- */

/* Checks neighbour i. */
static tlc_status check_neighbour(const tlc_gossip *g, size_t i, uint32_t node, double weight)
{
    const tlc_setup *x = &g->setup;
    const uint8_t *seen = g->report.taken;

    if (node >= x->cfg.workers)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "neighbour %zu is node %u; nodes are 0 to %u", i, node,
                          x->cfg.workers - 1);
    if (node == x->rank)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "neighbour %zu is this node itself", i);
    if (seen[node / 8] >> node % 8 & 1)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "neighbour %zu is node %u, which is an earlier one, too", i, node);
    if (!(weight > 0))
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "the weight of neighbour %zu, node %u, is %s; it is above 0", i,
                          node, tlc_text_real(weight).text);
    return TLC_OK;
}

static int has_lower_node(const void *arg, size_t a, size_t b)
{
    const tlc_neighbour *neighbour = arg;
    return neighbour[a].node < neighbour[b].node;
}

/* Takes neighbours and weights. */
static tlc_status take_neighbours(tlc_gossip *g, const uint32_t *neighbours, const double *weights)
{
    uint8_t *seen = g->report.taken; /* free until the first call */
    size_t degree = neighbours ? g->degree : 0;
    double sum = 0;

    for (size_t i = 0; i < degree; i++) {
        uint32_t node = neighbours[i];
        tlc_status status = check_neighbour(g, i, node, weights[i]);
        if (status)
            return status;
        seen[node / 8] |= (uint8_t)(1 << node % 8);
        g->neighbour[i].node = node;
        g->neighbour[i].weight = weights[i];
        g->by_node[i] = i;
        sum += weights[i];
    }
    tlc_sort(g->by_node, degree, has_lower_node, g->neighbour);
    g->weight = weights[degree];
    memset(seen, 0, TLC_BITMAP(g->setup.cfg.workers));
    if (!(g->weight >= 0))
        return tlc_refuse(&g->setup, TLC_ERR_PARAM, TLC_ALL,
                          "the own weight, after those of %zu neighbours, is %s; "
                          "it is at least 0",
                          degree, tlc_text_real(g->weight).text);
    if (!tlc_row_valid(sum + g->weight))
        return tlc_refuse(&g->setup, TLC_ERR_PARAM, TLC_ALL,
                          "the weights of %zu neighbours and the own one add up to %s; they add up to 1", degree,
                          tlc_text_real(sum + g->weight).text);
    return TLC_OK;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Decides where groups and tensors lie. */
static void lay_out(tlc_gossip *g)
{
    size_t at = 0;

    for (size_t t = 0; t < g->setup.count; t++)
        g->place[t] = TLC_ALL;
    for (size_t i = 0; i < tlc_gossip_groups(g); i++) {
        const tlc_ownership_group *group = tlc_sender_group(&g->push.sender, i);
        g->group_at[i] = at;
        for (size_t p = 0; p < group->count; p++) {
            const tlc_ownership_part *part = tlc_group_part(&g->push.sender, group, p);
            g->place[part->tensor] = at;
            at += part->n;
        }
        at = (at + LINE - 1) / LINE * LINE;
    }
    g->room = at;
}

/* Of pushes, and of hellos: a neighbour may be one of all nodes. */
static size_t bound_of(const tlc_gossip *g)
{
    const size_t push = tlc_message_bound(&g->setup, TLC_PUSH, 0);
    const uint64_t hello = tlc_gossip_hello_size(g, g->setup.cfg.workers - 1);

    return hello < push ? push : hello < SIZE_MAX ? (size_t)hello : SIZE_MAX;
}

/* The memory of all models, and the contexts of hellos. */
static tlc_status make_models(tlc_gossip *g)
{
    tlc_memory *m = &g->setup.memory;
    char why[TLC_SENTENCE];
    tlc_config cfg;
    tlc_status status = TLC_OK;

    (void)tlc_config_init(&cfg, sizeof cfg);
    cfg.codec = "raw";
    cfg.isa = g->setup.cfg.isa;
    cfg.alloc = g->setup.cfg.alloc;
    cfg.parallel = g->setup.cfg.parallel;
    cfg.message = why;
    cfg.message_cap = sizeof why;
    for (size_t i = 0; !status && i < tlc_gossip_groups(g); i++)
        status = tlc_create(&g->whole[i], &cfg, tlc_sender_group(&g->push.sender, i)->n);
    if (status)
        return tlc_refuse(&g->setup, status, TLC_ALL, "%s", why);
    uint64_t values = tlc_ceil_div(tlc_gossip_hello_size(g, g->degree), sizeof(float));
    if (values < g->room)
        values = g->room;
    g->setup.message_bound = bound_of(g);
    g->x = tlc_memory_take(m, values, sizeof *g->x);
    g->work = tlc_memory_take(m, values, sizeof *g->work);
    if (tlc_gossip_is_ecd(g))
        g->estimate = tlc_memory_take(m, values, sizeof *g->estimate);
    g->mean = tlc_memory_take(m, g->room, sizeof *g->mean);
    for (size_t i = 0; i < g->degree; i++)
        g->neighbour[i].replica = tlc_memory_take(m, g->room, sizeof *g->neighbour[i].replica);
    return m->status;
}

static tlc_status take_model(tlc_gossip *g, const float *const *model)
{
    size_t bytes = g->room * sizeof(float);

    for (size_t t = 0; t < g->setup.count; t++)
        tlc_take_model(g, t, model[t]);
    size_t bad = tlc_gossip_nonfinite(g, g->x);
    if (bad != TLC_ALL)
        return tlc_refuse(&g->setup, TLC_ERR_NONFINITE, bad, "NaN or infinity in its model");
    if (g->estimate)
        memcpy(g->estimate, g->x, bytes);
    for (size_t i = 0; i < g->degree; i++)
        memcpy(g->neighbour[i].replica, g->x, bytes);
    return TLC_OK;
}

static tlc_status make(tlc_gossip *g)
{
    tlc_setup *x = &g->setup;
    tlc_memory *m = &x->memory;
    /* a neighbour may be one step behind, and still fetch a message again */
    tlc_status status = tlc_pushing_init(&g->push, x, 1, x->cfg.keep > 1 ? x->cfg.keep : 2);

    if (status)
        return status;
    g->step = 1;
    g->report.finding = tlc_finding_of(TLC_REASON_NONE);
    g->report.taken = tlc_memory_take(m, TLC_BITMAP(x->cfg.workers), 1);
    g->neighbour = tlc_memory_take(m, g->degree, sizeof *g->neighbour);
    g->by_node = tlc_memory_take(m, g->degree, sizeof *g->by_node);
    g->place = tlc_memory_take(m, x->count, sizeof *g->place);
    g->group_at = tlc_memory_take(m, tlc_gossip_groups(g), sizeof *g->group_at);
    g->whole = tlc_memory_take(m, tlc_gossip_groups(g), sizeof(tlc_ctx *));
    g->fresh = tlc_memory_take(m, x->count, sizeof *g->fresh);
    if (m->status)
        return m->status;
    lay_out(g);
    return make_models(g);
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static tlc_status fill(tlc_gossip *g, const uint32_t *neighbours, const double *weights, const float *const *model)
{
    tlc_setup *x = &g->setup;
    tlc_status status;

    if ((!neighbours && g->degree) || !weights)
        return tlc_refuse_null(x, weights ? "neighbours" : "weights");
    if (g->degree >= x->cfg.workers)
        return tlc_refuse(x, TLC_ERR_PARAM, TLC_ALL, "degree is %zu; of %u nodes, there are %u others", g->degree,
                          x->cfg.workers, x->cfg.workers - 1);
    status = make(g);
    if (!status)
        status = tlc_gossip_check_values(g, "model", model);
    if (status)
        return status;
    tlc_float_mode mode = tlc_float_enter();
    status = take_neighbours(g, neighbours, weights);
    if (!status)
        status = take_model(g, model);
    tlc_float_leave(mode);
    if (status)
        return status;
    x->report = &g->report;
    x->reports = 1;
    x->step = &g->step;
    return TLC_OK;
}

tlc_status tlc_gossip_create(tlc_gossip **out, const tlc_exchange_config *cfg, tlc_gossip_kind kind, uint32_t node,
                             const uint32_t *neighbours, const double *weights, size_t degree,
                             const tlc_tensor *tensors, size_t count, const float *const *model)
{
    tlc_report report = {.step = 0};
    void *made = NULL;
    tlc_status status = tlc_setup_create(&made, sizeof **out, cfg,
                                         kind == TLC_GOSSIP_ECD ? TLC_EXCHANGE_ECD : TLC_EXCHANGE_DCD, TLC_ROLE_NODE,
                                         node, tensors, count, &report);
    tlc_gossip *g = made;

    if (g) {
        g->degree = degree;
        status = !out ? tlc_refuse_null(&g->setup, "the place for the object")
                 : kind != TLC_GOSSIP_DCD && kind != TLC_GOSSIP_ECD
                     ? tlc_refuse(&g->setup, TLC_ERR_PARAM, TLC_ALL,
                                  "kind is %u; it is TLC_GOSSIP_DCD, 0, or TLC_GOSSIP_ECD, 1", (unsigned)kind)
                     : fill(g, neighbours, weights, model);
    }
    status = tlc_setup_end(cfg, g ? &g->setup : NULL, status, &report);
    if (status)
        tlc_gossip_destroy(g);
    else
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): calls that refuse do not return TLC_OK */
        *out = g;
    return status;
}

void tlc_gossip_destroy(tlc_gossip *g)
{
    if (!g)
        return;
    tlc_memory memory = g->setup.memory; /* holds g itself */
    for (size_t i = 0; g->whole && i < tlc_gossip_groups(g); i++)
        tlc_destroy(g->whole[i]);
    tlc_sender_free(&g->push.sender);
    tlc_memory_free(&memory);
}
