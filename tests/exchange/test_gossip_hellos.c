/* SPDX-License-Identifier: MIT
 *
 * What hellos of gossip find before it costs a training: other weights, other models, values that are not finite.
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { NODES = 4 };

/* A full hello whose model has a value that is not finite. */
TEST(hello_not_finite)
{
    FOR_EACH_GOSSIP(kind) {
        network a;
        network_ring(&a, kind, NODES, "raw", 2);
        const float *own = tlc_gossip_model(a.node[1].g, WIDE);
        if (kind == TLC_GOSSIP_ECD) /* the hello has the estimate, which is the model then */
            require_status(tlc_gossip_join(a.node[1].g, 3, NULL), TLC_OK);
        network_hello(&a, 1);
        tlc_message hello = blob_copy(a.node[1].hello);
        uint8_t *p = find_number(hello, float_bits(own[7]) | (uint64_t)float_bits(own[8]) << 32);
        memcpy(p, (const uint8_t[]){0, 0, 0xc0, 0x7f}, 4);
        blob_seal((uint8_t *)(uintptr_t)hello.data, hello.len);
        REFUSED(&a, greet_node, hello, TLC_ERR_NONFINITE, "node 1: NaN or infinity in the replica of tensor \"wide\"");
        require(node_outcome(&a, 0).tensor == WIDE);
        blob_free(&hello);
        network_close(&a);
    }
}

/* Things that may differ between nodes: seeds, ISAs, keep. Codecs may change later on, as frames tell theirs. */
TEST(may_differ)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, NODES);
        network net;
        cfg.reserve = "natural";
        network_open(&net, &cfg, kind, NULL);
        tlc_gossip_destroy(net.node[1].g);
        cfg.seed = 99;
        cfg.keep = 9;
        cfg.isa = TLC_ISA_SCALAR;
        cfg.reserve = NULL;
        require_status(network_make(&net, &cfg, 1, &net.node[1].g), TLC_OK);
        require_status(tlc_gossip_set_codec(net.node[2].g, TLC_ALL, "natural"), TLC_OK);
        network_greet(&net);
        network_step(&net, 1);
        require_all_pulled(&net);
        network_greet(&net);
        network_close(&net);
    }
}

/* Node 1 has other neighbours, other weights or another model. NULL, 0: it has not. */
static void open_with(network *net, tlc_gossip_kind kind, const uint32_t *neighbours, const double *weights, int model)
{
    const tlc_exchange_config cfg = network_config(kind, NODES);

    network_open(net, &cfg, kind, NULL);
    node *n = &net->node[1];
    float *last = &net->start[CONV][net->tensors[CONV].n - 1], right = *last;
    tlc_gossip_destroy(n->g);
    if (neighbours)
        memcpy(n->neighbours, neighbours, n->degree * sizeof *neighbours);
    if (weights)
        memcpy(n->weights, weights, (n->degree + 1) * sizeof *weights);
    *last = model ? nextafterf(right, 9) : right;
    require_status(network_make(net, &cfg, 1, &n->g), TLC_OK);
    *last = right;
    network_hello(net, 0);
}

TEST(mistakes)
{
    static const double weights[] = {0.25, 0.5, 0.25}; /* of 0, of 2, its own; others have 1/3 */
    static const uint32_t neighbours[] = {2, 3};
    static const char edge[] = "node 1 has another weight for the edge to this node";

    FOR_EACH_GOSSIP(kind) {
        network net;
        open_with(&net, kind, NULL, weights, 0);
        REFUSED(&net, greet_node, net.node[1].hello, TLC_ERR_PARAM, edge);
        require_status(greet_node(&net, 3), TLC_OK); /* no neighbour of node 1 */
        network_close(&net);
        open_with(&net, kind, neighbours, NULL, 0);
        REFUSED(&net, greet_node, net.node[1].hello, TLC_ERR_PARAM, edge);
        network_close(&net);
        open_with(&net, kind, NULL, NULL, 1);
        REFUSED(&net, greet_node, net.node[1].hello, TLC_ERR_PARAM, "the model of node 1 is not its replica here");
        require_status(tlc_gossip_lose(net.node[0].g, edge_of(&net, 0, 1)), TLC_OK);
        require_status(greet_node(&net, 0), TLC_OK); /* it is not compared */
        require(tlc_gossip_lost(net.node[0].g, edge_of(&net, 0, 1)));
        network_close(&net);
    }
}

static void replace_number(tlc_message m, double old, double new)
{
    uint64_t bits;

    memcpy(&bits, &old, sizeof bits);
    uint8_t *p = find_number(m, bits);
    memcpy(&bits, &new, sizeof bits);
    for (size_t b = 0; b < 8; b++)
        p[b] = (uint8_t)(bits >> 8 * b);
    blob_seal((uint8_t *)(uintptr_t)m.data, m.len);
}

/* Weights of node 1 in its hello are others: that of the edge to node 2, and its own. */
TEST(rows)
{
    static const double weights[] = {1.0 / 3, 0.3125, 0x1.6aaaap-2};
    static const double wrong[][2] = {{0.3125, 0.25},       {0.3125, 0.5},   {0.3125, -0.354},     {0.3125, NAN},
                                      {0.3125, INFINITY},   {0.3125, 1e300}, {0.3125, -1e300},     {-0.1, 0.1 + 2. / 3},
                                      {0, 2. / 3},          {-0.0, 2. / 3},  {0.8, -0.8 + 2. / 3}, {NAN, 0x1.6aaaap-2},
                                      {INFINITY, -INFINITY}};

    FOR_EACH_GOSSIP(kind)
        for (size_t i = 0; i < COUNT(wrong); i++) {
            network net;
            open_with(&net, kind, NULL, weights, 0);
            tlc_message hello = blob_copy(net.node[1].hello);
            replace_number(hello, weights[1], wrong[i][0]);
            replace_number(hello, weights[2], wrong[i][1]);
            at.i = i;
            REFUSED(&net, greet_node, hello, TLC_ERR_PARAM,
                    "the weights of node 1 are not positive or do not add up to 1");
            require_status(greet_node(&net, 0), TLC_OK);
            blob_free(&hello);
            network_close(&net);
        }
}

/* Hellos may come from some neighbours alone. */
TEST(some_hellos)
{
    FOR_EACH_GOSSIP(kind) {
        const tlc_message none = {NULL, 0};
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        network_hello(&net, 0);
        require_status(take_forged(&net, greet_node, none), TLC_OK);
        net.node[3].hello = none;
        require_status(greet_node(&net, 0), TLC_OK);
        require_status(take_forged(&net, greet_node, none), TLC_OK);
        network_greet(&net);
        network_close(&net);
    }
}

/* A valid push of the same step, of the same node in another training: only the next hello can find it. */
TEST(another_training)
{
    FOR_EACH_GOSSIP(kind) {
        network a, b;
        network_ring(&a, kind, NODES, "qsgd", 2);
        network_ring(&b, kind, NODES, "qsgd", 2);
        network_move(&a, 3);
        network_move(&b, 4);
        network_push(&a);
        network_push(&b);
        require_status(take_forged(&a, pull_node, b.node[1].push), TLC_OK);
        for (uint32_t i = 1; i < NODES; i++)
            require_status(pull_node(&a, i), TLC_OK);
        network_hello(&a, 0);
        REFUSED(&a, greet_node, a.node[1].hello, TLC_ERR_PARAM, "the model of node 1 is not its replica here");
        require_status(greet_node(&a, 2), TLC_OK);
        network_hello(&a, 1);
        require_status(greet_node(&a, 0), TLC_OK); /* a full one corrects it */
        network_greet(&a);
        network_close(&a);
        network_close(&b);
    }
}
