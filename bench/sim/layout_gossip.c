/* SPDX-License-Identifier: MIT
 *
 * gossip: decentralised training (DCD). Each rank is a node with a model of its own, which starts at 0, and sends its
 * changes to its neighbours in a graph. A push has the local step in it: mean - RATE * gradient.
 *
 * With replay each step is the first one. Messages of the neighbours of node 0 are kept, and the lengths of all.
 */
#include "../lib/channel.h"
#include "../lib/codecs.h"
#include "../lib/explain.h"
#include "../lib/fleet.h"
#include "layout.h"
#include <stdlib.h>
#include <string.h>
#include <threelc/gossip.h>

enum { PUSH, PULL, PHASES };

static const layout_phase phases[PHASES] = {
    [PUSH] = {.call = "push"},
    [PULL] = {.call = "pull", .pulls = true},
};

static const float RATE = 0.01f;

typedef struct node {
    tlc_gossip *object; /* NULL: it is not there */
    uint32_t *neighbours;
    double *weights; /* and its own */
    size_t degree;
    tlc_message message; /* with replay: data only of neighbours of node 0 */
    unsigned char *kept; /* what it points to, if the node is gone */
} node;

typedef struct gossip {
    layout_options options;
    node *nodes;
    tlc_tensor *tensors;
    float *moved; /* of all tensors at their offsets */
    const float **moved_at;
    tlc_message *came;
} gossip;

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

static tlc_graph graph_of(const layout_options *o)
{
    return (tlc_graph){.struct_size = sizeof(tlc_graph), .kind = o->graph, .nodes = (uint32_t)o->ranks};
}

static size_t degree_of(const layout_options *o, size_t rank)
{
    const tlc_graph graph = graph_of(o);
    size_t degree = 0;

    (void)tlc_graph_neighbours(&graph, (uint32_t)rank, NULL, NULL, 0, &degree);
    return degree;
}

static bool find_neighbours(const layout_options *o, size_t rank, node *n)
{
    const tlc_graph graph = graph_of(o);
    size_t degree = degree_of(o, rank);

    n->neighbours = calloc(degree + 1, sizeof *n->neighbours);
    n->weights = calloc(degree + 1, sizeof *n->weights);
    return n->neighbours && n->weights &&
           !tlc_graph_neighbours(&graph, (uint32_t)rank, n->neighbours, n->weights, degree, &n->degree);
}

/* Its model is 0. */
static bool make_node(gossip *g, size_t rank, char *why)
{
    node *n = &g->nodes[rank];
    tlc_exchange_config cfg;
    tlc_status status;

    memset(g->moved, 0, g->options.model->room * sizeof *g->moved);
    (void)tlc_exchange_config_init(&cfg, sizeof cfg);
    cfg.workers = (uint32_t)g->options.ranks;
    cfg.push = g->options.codec;
    cfg.isa = g->options.isa;
    cfg.seed = g->options.seed;
    status = tlc_gossip_create(&n->object, &cfg, TLC_GOSSIP_DCD, (uint32_t)rank, n->neighbours, n->weights, n->degree,
                               g->tensors, g->options.model->count, g->moved_at);
    return !status || explain(why, "tlc_gossip_create: %s", tlc_status_string(status));
}

static void destroy_node(node *n)
{
    tlc_gossip_destroy(n->object);
    n->object = NULL;
}

static bool check(const gossip *g, size_t rank, tlc_status status, const char *call, char *why)
{
    tlc_outcome outcome = {.struct_size = sizeof outcome};

    if (!status)
        return true;
    (void)tlc_gossip_outcome(g->nodes[rank].object, &outcome);
    return explain(why, "%s: %s: %s", call, tlc_status_string(status), outcome.sentence);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* x, what it is made of, the mean, and a replica of each neighbour. */
static size_t node_bytes(const layout_options *o, size_t rank)
{
    return (3 + degree_of(o, rank)) * o->model->values * sizeof(float);
}

static size_t memory(const layout_options *o)
{
    size_t sum = 0;

    for (size_t r = 0; r < o->ranks; r++)
        sum += node_bytes(o, r);
    return sum;
}

/* Node 0 and one other. */
static size_t replay_memory(const layout_options *o)
{
    return node_bytes(o, 0) + node_bytes(o, 1);
}

static bool allocate(gossip *g)
{
    const shape_list *model = g->options.model;
    size_t count = model->count;

    g->nodes = calloc(g->options.ranks, sizeof *g->nodes);
    g->tensors = calloc(count, sizeof *g->tensors);
    g->moved = channel_buffer(model->room * sizeof *g->moved);
    g->moved_at = calloc(count, sizeof *g->moved_at);
    g->came = calloc(g->options.ranks, sizeof *g->came);
    if (!g->nodes || !g->tensors || !g->moved || !g->moved_at || !g->came)
        return false;
    fleet_describe(model, NULL, g->tensors);
    for (size_t i = 0; i < count; i++)
        g->moved_at[i] = g->moved + model->shapes[i].offset;
    for (size_t r = 0; r < g->options.ranks; r++) {
        if (!find_neighbours(&g->options, r, &g->nodes[r]))
            return false;
    }
    return true;
}

static void close_layout(void *layout)
{
    gossip *g = layout;

    for (size_t r = 0; g && g->nodes && r < g->options.ranks; r++) {
        destroy_node(&g->nodes[r]);
        free(g->nodes[r].neighbours);
        free(g->nodes[r].weights);
        free(g->nodes[r].kept);
    }
    if (g) {
        free(g->nodes);
        free(g->tensors);
        free(g->moved);
        free(g->moved_at);
        free(g->came);
    }
    free(g);
}

static void *open_layout(const layout_options *o, char *why)
{
    gossip *g = calloc(1, sizeof *g);
    bool ok;

    if (!g) {
        explain(why, "out of memory");
        return NULL;
    }
    g->options = *o;
    ok = allocate(g) || explain(why, "out of memory");
    for (size_t r = 0; ok && !o->replay && r < o->ranks; r++)
        ok = make_node(g, r, why);
    if (ok)
        return g;
    close_layout(g);
    return NULL;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static bool begin(void *layout, char *why)
{
    gossip *g = layout;

    if (!g->options.replay)
        return true;
    destroy_node(&g->nodes[0]);
    return make_node(g, 0, why);
}

static bool push(gossip *g, size_t rank, const layout_values *values, char *why)
{
    node *n = &g->nodes[rank];

    for (size_t i = 0; i < g->options.model->count; i++) {
        const shape *s = &g->options.model->shapes[i];
        const float *mean = tlc_gossip_mean(n->object, i), *grad = values->grads[i];
        float *moved = g->moved + s->offset;
        for (size_t j = 0; j < s->n; j++)
            moved[j] = mean[j] - RATE * grad[j];
    }
    return check(g, rank, tlc_gossip_push(n->object, g->moved_at, &n->message), "tlc_gossip_push", why);
}

static bool is_neighbour(const node *n, size_t rank)
{
    bool is = false;

    for (size_t i = 0; i < n->degree; i++)
        is = is || n->neighbours[i] == rank;
    return is;
}

/* Keeps what node 0 pulls of the message, and its length. */
static bool leave(gossip *g, size_t rank, char *why)
{
    node *n = &g->nodes[rank];
    bool keeps = is_neighbour(&g->nodes[0], rank);

    free(n->kept);
    n->kept = keeps ? malloc(n->message.len + 1) : NULL;
    if (keeps && !n->kept)
        return explain(why, "out of memory");
    if (keeps)
        memcpy(n->kept, n->message.data, n->message.len);
    n->message.data = n->kept;
    destroy_node(n);
    return true;
}

static bool pull(gossip *g, size_t rank, char *why)
{
    const node *n = &g->nodes[rank];

    for (size_t i = 0; i < n->degree; i++)
        g->came[i] = g->nodes[n->neighbours[i]].message;
    return check(g, rank, tlc_gossip_pull(n->object, g->came), "tlc_gossip_pull", why);
}

static bool call(void *layout, size_t phase, size_t machine, const layout_values *values, char *why)
{
    gossip *g = layout;
    bool passing = g->options.replay && machine;

    if (phase == PULL)
        return pull(g, machine, why);
    return (!passing || make_node(g, machine, why)) && push(g, machine, values, why) &&
           (!passing || leave(g, machine, why));
}

static traffic sent(const void *layout, size_t phase, size_t machine)
{
    const gossip *g = layout;
    const node *n = &g->nodes[machine];
    traffic t = {.out = 0};

    for (size_t i = 0; phase == PUSH && i < n->degree; i++) {
        traffic_add(&t, n->message, true);
        traffic_add(&t, g->nodes[n->neighbours[i]].message, false);
    }
    return t;
}

static size_t kept(const void *layout)
{
    const gossip *g = layout;

    return g->nodes[0].degree * g->nodes[1].message.len;
}

const layout_kind layout_gossip = {.name = "gossip",
                                   .has_graph = true,
                                   .phases = phases,
                                   .phase_count = PHASES,
                                   .most_whole = SIZE_MAX,
                                   .takes = codec_suits_gossip,
                                   .memory = memory,
                                   .replay_memory = replay_memory,
                                   .open = open_layout,
                                   .close = close_layout,
                                   .begin = begin,
                                   .call = call,
                                   .sent = sent,
                                   .kept = kept};
