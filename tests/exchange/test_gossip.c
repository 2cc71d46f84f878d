/* SPDX-License-Identifier: MIT
 *
 * The arithmetic of gossip, computed here once more from what exchange.h says: means, what frames are made of, models
 * and estimates, bit for bit. With raw both kinds are plain decentralised SGD.
 */
#include "../support/gossip_run.h"
#include <float.h>
#include <math.h>

/* What exchange.h says the nodes of a network have. replica: what all others know of a node, which is its model (DCD)
 * or its estimate (ECD). */
typedef struct definition {
    const network *net;
    uint64_t step;
    float **model, **replica; /* [node * NET_TENSORS + tensor] */
    size_t differ;            /* values that a codec has changed */
} definition;

static void definition_open(definition *d, const network *net)
{
    const size_t count = (size_t)net->nodes * NET_TENSORS;

    *d = (definition){.net = net, .step = 1};
    d->model = calloc(count, sizeof *d->model);
    d->replica = calloc(count, sizeof *d->replica);
    require(d->model && d->replica);
    for (size_t i = 0; i < count; i++) {
        const size_t t = i % NET_TENSORS, n = net->tensors[t].n;
        d->model[i] = floats(n);
        d->replica[i] = floats(n);
        if (n) {
            memcpy(d->model[i], net->start[t], n * sizeof(float));
            memcpy(d->replica[i], net->start[t], n * sizeof(float));
        }
    }
}

static void definition_close(definition *d)
{
    for (size_t i = 0; i < (size_t)d->net->nodes * NET_TENSORS; i++) {
        free(d->model[i]);
        free(d->replica[i]);
    }
    free(d->model);
    free(d->replica);
}

/* ---- the definition ---------------------------------------------------------------------------------------------- */

/* Value k of the mean of tensor t at node i. Each operation is rounded to binary32. */
static float mean_value(const definition *d, uint32_t i, size_t t, size_t k)
{
    const node *n = &d->net->node[i];
    const float *mine = d->replica[i * NET_TENSORS + t];
    require(mine);
    const float own = mine[k];
    float mean = own;

    for (size_t j = 0; j < n->degree; j++) {
        const float weight = (float)n->weights[j];
        const float difference = d->replica[n->neighbours[j] * NET_TENSORS + t][k] - own;
        const float share = weight * difference;
        mean += share;
    }
    return mean;
}

/* What is compressed. */
static float sent_value(const definition *d, uint32_t i, size_t t, size_t k)
{
    const float moved = moved_value(d->net, i, t, k), model = d->model[i * NET_TENSORS + t][k];
    const float half = 0.5f * (float)(d->step + 1), before = (1 - half) * model, after = half * moved;

    return d->net->kind == TLC_GOSSIP_DCD ? moved - model : before + after;
}

static int starts(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static const char *codec_of(const network *net, size_t t)
{
    return net->tensors[t].push ? net->tensors[t].push : net->tensors[t].n < net->cfg.min_n ? "raw" : net->cfg.push;
}

/* As tlc_decompress_add: a value that is 0 leaves the sum as it is, unless the codec is raw. */
static float added(float sum, float share, float value, const char *codec)
{
    const float product = share * value;

    return value != 0 || starts(codec, "raw") ? sum + product : sum;
}

/* The model of node i and what the others know of it, after its push. */
static void settle_tensor(definition *d, uint32_t i, size_t t, const float *sent)
{
    const size_t n = d->net->tensors[t].n;
    float *model = d->model[i * NET_TENSORS + t], *replica = d->replica[i * NET_TENSORS + t];
    const char *codec = codec_of(d->net, t);
    const double t_of_paper = (double)(d->step + 1);

    for (size_t k = 0; k < n; k++)
        if (d->net->kind == TLC_GOSSIP_DCD)
            replica[k] = model[k] = added(model[k], 1, sent[k], codec);
        else {
            replica[k] *= (float)(1 - 2 / t_of_paper);
            replica[k] = added(replica[k], (float)(2 / t_of_paper), sent[k], codec);
            model[k] = moved_value(d->net, i, t, k);
        }
}

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

static double number_after(const char *text, const char *name, double otherwise)
{
    const char *p = strstr(text, name);
    return p ? strtod(p + strlen(name), NULL) : otherwise;
}

/* Can a codec make c of z? max: the largest magnitude of z. */
static int can_become(const char *codec, float z, float c, float max)
{
    const double p = number_after(codec, "p=", 0.25), levels = number_after(codec, "bits=", 8) > 4 ? 127 : 7;

    if (starts(codec, "raw"))
        return float_bits(c) == float_bits(z);
    if (c != 0 && (c < 0) != (z < 0))
        return 0;
    if (starts(codec, "random-sparse"))
        return p == 1 ? c == z : c == 0 || fabs(c - z / p) <= fabs(z / p) * FLT_EPSILON;
    if (starts(codec, "stochastic-ternary"))
        return c == 0 || fabsf(c) <= max;
    if (starts(codec, "qsgd"))
        return fabs((double)c - z) <= max / levels * (1 + FLT_EPSILON);
    int exponent;
    return c == 0 || (fabsf(frexpf(c, &exponent)) == 0.5f && fabsf(c) <= 2 * fabsf(z) && fabsf(c) >= 0.5f * fabsf(z));
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void require_means(definition *d)
{
    for (uint32_t i = 0; i < d->net->nodes; i++)
        for (size_t t = 0; t < NET_TENSORS; t++) {
            const float *mean = tlc_gossip_mean(d->net->node[i].g, t);
            require((mean == NULL) == (d->net->tensors[t].n == 0));
            for (size_t k = 0; k < d->net->tensors[t].n; k++)
                require(float_bits(mean[k]) == float_bits(mean_value(d, i, t, k)));
        }
}

static void require_models(const definition *d)
{
    for (uint32_t i = 0; i < d->net->nodes; i++)
        for (size_t t = 0; t < NET_TENSORS; t++) {
            const float *model = tlc_gossip_model(d->net->node[i].g, t);
            require((model == NULL) == (d->net->tensors[t].n == 0));
            require(same(model, d->model[i * NET_TENSORS + t], d->net->tensors[t].n * sizeof(float)));
        }
}

/* Frames are what the codec can make of the values. */
static void require_sent(definition *d, uint32_t i, size_t t, const float *sent)
{
    float max = 0;

    at.codec = codec_of(d->net, t);
    for (size_t k = 0; k < d->net->tensors[t].n; k++)
        max = fmaxf(max, fabsf(sent_value(d, i, t, k)));
    for (size_t k = 0; k < d->net->tensors[t].n; k++) {
        const float z = sent_value(d, i, t, k);
        require(can_become(at.codec, z, sent[k], max));
        d->differ += sent[k] != z;
    }
}

/* Node i has made its push. */
static void settle_node(definition *d, uint32_t i)
{
    float *values[NET_TENSORS];

    for (size_t t = 0; t < NET_TENSORS; t++)
        values[t] = floats(d->net->tensors[t].n);
    require(read_push(d->net, d->net->node[i].push, values));
    for (size_t t = 0; t < NET_TENSORS; t++) {
        require_sent(d, i, t, values[t]);
        settle_tensor(d, i, t, values[t]);
        free(values[t]);
    }
}

static void defined_step(definition *d, network *net, uint64_t seed)
{
    require_means(d);
    network_move(net, seed);
    network_push(net);
    for (uint32_t i = 0; i < net->nodes; i++)
        settle_node(d, i);
    require_models(d); /* of ECD and DCD, as soon as the push was made */
    network_pull(net);
    require_all_pulled(net);
    require_models(d);
    d->step++;
    network_greet(net);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void follow(tlc_gossip_kind kind, const tlc_graph *graph, const char *codec)
{
    tlc_exchange_config cfg = network_config(kind, graph->nodes);
    definition d;
    network net;

    cfg.push = at.codec = codec;
    cfg.seed = 11;
    network_open(&net, &cfg, kind, graph);
    definition_open(&d, &net);
    for (uint64_t step = 1; step <= 5; step++) {
        at.i = (size_t)step;
        defined_step(&d, &net, step);
    }
    require_means(&d);
    require(d.differ > 0); /* tensor OWN has a lossy codec */
    definition_close(&d);
    network_close(&net);
}

/* Every codec without bias on a ring, and every graph with two of them. */
TEST(definitions)
{
    const tlc_graph ring = ring_of(3);

    FOR_EACH_GOSSIP(kind) {
        for (const char *const *codec = unbiased_codecs(); *codec; codec++)
            follow(kind, &ring, *codec);
        for (tlc_graph_kind g = TLC_GRAPH_RING; g <= TLC_GRAPH_RANDOM; g++)
            for (uint32_t nodes = 1; nodes <= 9; nodes += quick() ? 4 : 1) {
                tlc_graph graph = ring_of(nodes);
                graph.kind = g;
                graph.p = 0.4;
                follow(kind, &graph, "qsgd");
                follow(kind, &graph, "raw");
            }
    }
}

/* ECD, step 1: z is moved, and estimates are C(z), whatever the model was. */
TEST(first_step)
{
    tlc_exchange_config cfg = network_config(TLC_GOSSIP_ECD, 3);
    network net;

    cfg.push = "raw";
    network_open(&net, &cfg, TLC_GOSSIP_ECD, NULL);
    network_step(&net, 1);
    require_all_pulled(&net);
    for (size_t t = 0; t < NET_TENSORS; t++)
        require(same(tlc_gossip_model(net.node[1].g, t), net.node[1].moved[t], net.tensors[t].n * sizeof(float)));
    float *values[NET_TENSORS];
    for (size_t t = 0; t < NET_TENSORS; t++)
        values[t] = floats(net.tensors[t].n);
    require(read_push(&net, net.node[1].push, values));
    require(same(values[WIDE], net.node[1].moved[WIDE], net.tensors[WIDE].n * sizeof(float)));
    for (size_t t = 0; t < NET_TENSORS; t++)
        free(values[t]);
    network_close(&net);
}

/* Plain decentralised SGD in binary64 on the same changes. W is doubly stochastic, so that errors do not grow. A step
 * rounds weights, three operations for each of four neighbours, the change, what is sent and the sum: less than 32
 * units of 2^-24 of the largest value together. In ECD what is sent is t / 2 times as large, and counts 2 / t times. */
TEST(plain_sgd)
{
    enum { NODES = 6, STEPS = 20 };
    static double x[NODES][131], next[NODES][131];

    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, NODES);
        tlc_graph graph = ring_of(NODES);
        double most = 0;
        network net;
        cfg.push = "raw";
        graph.kind = TLC_GRAPH_TORUS;
        network_open(&net, &cfg, kind, &graph);
        require(net.tensors[WIDE].n == COUNT(x[0]));
        for (size_t i = 0; i < NODES; i++)
            for (size_t k = 0; k < COUNT(x[0]); k++)
                x[i][k] = net.start[WIDE][k];
        for (uint64_t step = 1; step <= STEPS; step++) {
            network_move(&net, step);
            for (uint32_t i = 0; i < NODES; i++) {
                const node *n = &net.node[i];
                const float *mean = tlc_gossip_mean(n->g, WIDE);
                for (size_t k = 0; k < COUNT(x[0]); k++) {
                    next[i][k] = n->weights[n->degree] * x[i][k] + moved_value(&net, i, WIDE, k) - mean[k];
                    for (size_t j = 0; j < n->degree; j++)
                        next[i][k] += n->weights[j] * x[n->neighbours[j]][k];
                }
            }
            memcpy(x, next, sizeof x);
            network_push(&net);
            network_pull(&net);
            require_all_pulled(&net);
            for (uint32_t i = 0; i < NODES; i++)
                for (size_t k = 0; k < COUNT(x[0]); k++) {
                    most = fmax(most, fabs(x[i][k]));
                    require(fabs(tlc_gossip_model(net.node[i].g, WIDE)[k] - x[i][k]) <=
                            (double)step * 32 * 0x1p-24 * most);
                }
        }
        require(most > 0.01);
        network_close(&net);
    }
}

/* Any weights, and values of any size. */
TEST(equal_models)
{
    enum { NODES = 4 };
    static const double weights[][NODES] = {{0.1, 0.2, 0.3, 0.4},
                                            {0.3, 0.3, 0.4, 0},
                                            {1.0 / 3, 1e-300, 1.0 / 3, 1.0 / 3},
                                            {0.25, 0.25, 0.25, 0.25 + 0x1p-21}};
    static const uint32_t odd[] = {0x80000000, 0, 1, 0x80000001, 0x7f7fffff, 0xff7fffff, 0x007fffff, 0x3f800001};
    tlc_graph graph = ring_of(NODES);

    graph.kind = TLC_GRAPH_COMPLETE;
    FOR_EACH_GOSSIP(kind)
        for (size_t w = 0; w < COUNT(weights); w++) {
            tlc_exchange_config cfg = network_config(kind, NODES);
            tlc_gossip *g;
            network net;
            network_open(&net, &cfg, kind, &graph);
            memcpy(net.node[2].weights, weights[w], sizeof weights[w]);
            memcpy(net.start[CONV], odd, sizeof odd);
            require_status(network_make(&net, &cfg, 2, &g), TLC_OK);
            for (size_t t = 0; t < NET_TENSORS; t++) {
                for (size_t k = 0; k < net.tensors[t].n; k++)
                    require(tlc_gossip_mean(g, t)[k] == net.start[t][k]); /* -0 becomes 0 */
                require(same(tlc_gossip_model(g, t), net.start[t], net.tensors[t].n * sizeof(float)));
            }
            tlc_gossip_destroy(g);
            network_close(&net);
        }
}

/* Neighbours may be in any order: means are added up in this order, and messages come in it. */
TEST(orders)
{
    enum { NODES = 5 };
    tlc_graph graph = ring_of(NODES);

    graph.kind = TLC_GRAPH_COMPLETE;
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, NODES);
        definition d;
        network net;
        network_open(&net, &cfg, kind, &graph);
        for (uint32_t i = 0; i < NODES; i++) {
            node *n = &net.node[i];
            static const uint32_t turns[] = {2, 0, 3, 1};
            for (size_t k = 0; k < n->degree; k++) {
                const uint32_t other = turns[k] + (turns[k] >= i);
                n->neighbours[k] = other;
                n->weights[k] = 0.01 * (double)(1 + i * other + i + other); /* symmetric, and different */
            }
            n->weights[n->degree] = 1;
            for (size_t k = 0; k < n->degree; k++)
                n->weights[n->degree] -= n->weights[k];
            tlc_gossip_destroy(n->g);
            require_status(network_make(&net, &cfg, i, &n->g), TLC_OK);
        }
        definition_open(&d, &net);
        for (uint64_t step = 1; step <= 4; step++)
            defined_step(&d, &net, step);
        definition_close(&d);
        network_close(&net);
    }
}

/* The whole weight is that of the neighbour: the means are its model, or its estimate, to the rounding of a
 * difference. */
TEST(replicas)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, 2);
        definition d;
        network net;
        cfg.push = "random-sparse";
        network_open(&net, &cfg, kind, NULL);
        for (uint32_t i = 0; i < 2; i++) {
            net.node[i].weights[0] = 1;
            net.node[i].weights[1] = 0;
            tlc_gossip_destroy(net.node[i].g);
            require_status(network_make(&net, &cfg, i, &net.node[i].g), TLC_OK);
        }
        definition_open(&d, &net);
        for (uint64_t step = 1; step <= 4; step++) {
            defined_step(&d, &net, step);
            for (uint32_t i = 0; i < 2; i++) {
                const float *mean = tlc_gossip_mean(net.node[i].g, WIDE);
                const float *own = d.replica[i * NET_TENSORS + WIDE], *other = d.replica[(1 - i) * NET_TENSORS + WIDE];
                for (size_t k = 0; k < net.tensors[WIDE].n; k++)
                    require(fabsf(mean[k] - other[k]) <= (fabsf(own[k]) + fabsf(other[k])) * FLT_EPSILON);
            }
        }
        definition_close(&d);
        network_close(&net);
    }
}

/* Nodes, tensors and steps draw their own numbers; with the same seed a node draws the same ones. */
TEST(own_numbers)
{
    enum { RUNS = 3 };
    float *values[RUNS][3][NET_TENSORS];

    for (size_t run = 0; run < RUNS; run++) {
        tlc_exchange_config cfg = network_config(TLC_GOSSIP_DCD, 3);
        network net;
        cfg.seed = run == 1;
        network_open(&net, &cfg, TLC_GOSSIP_DCD, NULL);
        for (uint32_t i = 0; i < 3; i++) {
            for (size_t t = 0; t < NET_TENSORS; t++) {
                const size_t size = net.tensors[t].n * sizeof(float);
                values[run][i][t] = floats(net.tensors[t].n);
                if (!size)
                    continue;
                memcpy(net.node[i].moved[t], net.start[t], size); /* equal changes everywhere */
                float *x = (float *)(void *)bytes(size);
                memcpy(x, net.start[t], size);
                for (size_t k = 0; k < net.tensors[t].n; k++)
                    x[k] += (float)(1 + k % 7) * 0.125f;
                memcpy(net.node[i].moved[t], x, size);
                free(x);
            }
            require_status(push_node(&net, i), TLC_OK);
            require(read_push(&net, net.node[i].push, values[run][i]));
        }
        network_close(&net);
    }
    const size_t size = net_tensors[WIDE].n * sizeof(float), less = net_tensors[CONV].n * sizeof(float);
    require(!same(values[0][0][WIDE], values[0][1][WIDE], size) && !same(values[0][1][WIDE], values[0][2][WIDE], size));
    require(!same(values[0][0][WIDE], values[1][0][WIDE], size));
    require(!same(values[0][0][WIDE], values[0][0][CONV], less));
    for (uint32_t i = 0; i < 3; i++)
        require(same(values[0][i][WIDE], values[2][i][WIDE], size));
    for (size_t run = 0; run < RUNS; run++)
        for (uint32_t i = 0; i < 3; i++)
            for (size_t t = 0; t < NET_TENSORS; t++)
                free(values[run][i][t]);
}
