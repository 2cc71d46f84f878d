/* SPDX-License-Identifier: MIT
 *
 * What goes wrong in gossip: values that are not finite, neighbours that are gone and come back, nodes that join.
 * After each, replicas are models again. (Altered messages: test_gossip_altered.c.)
 */
#include "../support/gossip_run.h"
#include <float.h>
#include <math.h>

enum { NODES = 4 };

/* The steps go on, and replicas are models. */
static void close_ring(network *net)
{
    for (uint64_t step = 0; step < 2; step++) {
        network_step(net, 100 + step);
        require_all_pulled(net);
        network_greet(net);
    }
    network_close(net);
}

/* ---- values that are not finite ---------------------------------------------------------------------------------- */

static void set_moved(network *net, uint32_t i, size_t t, size_t k, float value)
{
    memcpy(net->node[i].moved[t] + k * sizeof value, &value, sizeof value);
}

static size_t all_values(void)
{
    size_t n = 0;

    for (size_t t = 0; t < NET_TENSORS; t++)
        n += net_tensors[t].n;
    return n;
}

static void copy_model(const network *net, uint32_t i, float *const *to)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        if (net->tensors[t].n)
            memcpy(to[t], tlc_gossip_model(net->node[i].g, t), net->tensors[t].n * sizeof(float));
}

static void require_model(const network *net, uint32_t i, float *const *want)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        require(same(tlc_gossip_model(net->node[i].g, t), want[t], net->tensors[t].n * sizeof(float)));
}

static void make_tensors(float **values)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        values[t] = floats(net_tensors[t].n);
}

static void free_tensors(float **values)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        free(values[t]);
}

/* The moved values of node 1 are as they are; its push must keep it where it was, because of tensor t. */
static void stays(network *net, size_t t, const char *name)
{
    const tlc_exchange_stats before = node_stats(net, 1);
    char sentence[200];
    float *model[NET_TENSORS];

    make_tensors(model);
    copy_model(net, 1, model);
    snprintf(sentence, sizeof sentence, "node 1 stays where it was: tensor \"%s\" would not be finite", name);
    network_push(net);
    require_told(net, 1, TLC_OK, TLC_ERR_NONFINITE, 1, sentence);
    require(node_outcome(net, 1).tensor == t);
    require_model(net, 1, model);
    network_pull(net);
    require_all_pulled(net);
    require_model(net, 1, model);
    for (uint32_t i = 0; i < NODES; i += 2) { /* its neighbours */
        require_told(net, i, TLC_OK, TLC_ERR_NONFINITE, 1, sentence);
        require(node_outcome(net, i).tensor == t);
    }
    require_told(net, 3, TLC_OK, TLC_OK, TLC_NOBODY, "nothing is wrong");
    const tlc_exchange_stats after = node_stats(net, 1), other = node_stats(net, 0);
    require(after.steps == before.steps + 1 && after.failed == before.failed + 1);
    require(after.dropped == before.dropped + all_values() && other.failed == 0 && other.dropped == 0);
    network_greet(net);
    free_tensors(model);
}

/* As network_ring, after two steps. */
static void open_assuming(network *net, tlc_gossip_kind kind, const char *codec, int assume_finite)
{
    tlc_exchange_config cfg = network_config(kind, NODES);

    cfg.push = at.codec = codec;
    cfg.assume_finite = assume_finite;
    network_open(net, &cfg, kind, NULL);
    network_step(net, 1);
    network_step(net, 2);
    require_all_pulled(net);
}

/* NaN and infinity in moved, in all sorts of tensors, also where the caller says that there are none. */
TEST(not_finite)
{
    static const uint32_t bad[] = {0x7fc00000, 0x7f800001, 0xffc12345, 0x7f800000, 0xff800000};

    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++)
            for (size_t i = 0; i < 2 * COUNT(bad); i++) {
                const size_t t = (size_t[]){BIAS, WIDE, GAIN, OWN, CONV}[i / 2];
                network net;
                at.i = i;
                open_assuming(&net, kind, *codec, (int)(i % 2));
                network_move(&net, 3);
                set_moved(&net, 1, t, net_tensors[t].n - 1, bits_float(bad[i / 2]));
                stays(&net, t, net_tensors[t].name);
                close_ring(&net);
            }
}

/* Values that are finite, but not what becomes of them. */
TEST(overflow)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        /* z: moved - x, or t / 2 moved */
        network_ring(&net, kind, NODES, "raw", 2);
        network_move(&net, 3);
        set_moved(&net, 1, WIDE, 7, FLT_MAX);
        network_push(&net);
        network_pull(&net);
        require_all_pulled(&net);
        if (kind == TLC_GOSSIP_DCD) {
            require_told(&net, 1, TLC_OK, TLC_OK, TLC_NOBODY, "nothing is wrong");
            network_greet(&net);
            for (size_t t = 0; t < NET_TENSORS; t++) /* as means are not finite either way */
                memcpy(net.node[1].moved[t], net.start[t], net.tensors[t].n * sizeof(float));
            move_node(&net, 0, 4);
            move_node(&net, 2, 4);
            move_node(&net, 3, 4);
            set_moved(&net, 1, WIDE, 7, -FLT_MAX);
            stays(&net, WIDE, "wide");
        } else
            require(node_stats(&net, 1).failed == 1);
        network_greet(&net);
        network_close(&net);
    }
}

/* DCD: x is 0.9 FLT_MAX, z a tenth of it, and random-sparse makes C(z) = 4 z of it, or 0. */
TEST(overflow_of_the_model)
{
    tlc_exchange_config cfg = network_config(TLC_GOSSIP_DCD, NODES);
    unsigned kept = 0, moved = 0;

    cfg.push = "random-sparse";
    for (uint64_t seed = 0; seed < 32; seed++) {
        const float large = 0.9f * FLT_MAX;
        float *model[NET_TENSORS];
        network net;
        cfg.seed = seed;
        network_open(&net, &cfg, TLC_GOSSIP_DCD, NULL);
        make_tensors(model);
        for (uint32_t i = 0; i < NODES; i++) {
            for (size_t t = 0; t < NET_TENSORS; t++)
                if (net.tensors[t].n)
                    memcpy(model[t], net.start[t], net.tensors[t].n * sizeof(float));
            model[CONV][3] = large;
            require_status(tlc_gossip_join(net.node[i].g, 1, (const float *const *)model), TLC_OK);
            require_status(tlc_gossip_hello(net.node[i].g, 1, &net.node[i].hello), TLC_OK);
        }
        for (uint32_t i = 0; i < NODES; i++)
            require_status(greet_node(&net, i), TLC_OK);
        network_move(&net, 1);
        for (uint32_t i = 0; i < NODES; i++)
            set_moved(&net, i, CONV, 3, i == 1 ? FLT_MAX : large);
        network_push(&net);
        network_pull(&net);
        require_all_pulled(&net);
        const tlc_outcome o = node_outcome(&net, 0);
        if (node_stats(&net, 1).failed) {
            kept++;
            require(o.cause == TLC_ERR_NONFINITE && o.rank == 1 && o.tensor == CONV);
            require_model(&net, 1, model);
        } else
            moved++;
        require(isfinite(tlc_gossip_model(net.node[1].g, CONV)[3]));
        network_greet(&net);
        free_tensors(model);
        network_close(&net);
    }
    require(kept && moved);
}

/* z is finite, but C(z) = 4 z of random-sparse is not. */
TEST(overflow_of_the_frame)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "random-sparse", 2);
        network_move(&net, 3);
        set_moved(&net, 1, WIDE, 9, kind == TLC_GOSSIP_DCD ? 0.9f * FLT_MAX : 0.4f * FLT_MAX);
        stays(&net, WIDE, "wide");
        close_ring(&net);
    }
}

/* ECD: the model is so large that random-sparse cannot send it either. So a node that stays sends no frames, and
 * estimates stay, too. */
TEST(no_frames)
{
    const float large = 0.9f * FLT_MAX;
    float *values[NET_TENSORS];
    network net;

    make_tensors(values);
    network_ring(&net, TLC_GOSSIP_ECD, NODES, "random-sparse", 2);
    copy_model(&net, 1, values);
    values[WIDE][9] = large;
    require_status(tlc_gossip_join(net.node[1].g, 3, (const float *const *)values), TLC_OK);
    network_hello(&net, 1);
    for (uint32_t i = 0; i < NODES; i++)
        require_status(greet_node(&net, i), TLC_OK);
    network_move(&net, 3);
    set_moved(&net, 1, CONV, 2, NAN);
    set_moved(&net, 0, WIDE, 9, 1); /* its mean is large */
    set_moved(&net, 2, WIDE, 9, 1);
    stays(&net, CONV, "conv");
    require(!read_push(&net, net.node[1].push, values));
    network_close(&net);
    free_tensors(values);
}

/* All stay where they were: nobody moves. In the next step all go on. */
TEST(all_stay)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        network_move(&net, 3);
        for (uint32_t i = 0; i < NODES; i++)
            set_moved(&net, i, CONV, i, NAN);
        network_push(&net);
        network_pull(&net);
        require_all_pulled(&net);
        for (uint32_t i = 0; i < NODES; i++) {
            require(node_stats(&net, i).failed == 1 && node_stats(&net, i).steps == 3);
            require(node_outcome(&net, i).cause == TLC_ERR_NONFINITE);
        }
        close_ring(&net);
    }
}

/* ---- neighbours that are gone ------------------------------------------------------------------------------------ */

/* Messages of this node do not arrive. */
static uint32_t gone;

static tlc_message drop(network *net, uint32_t from, uint32_t to, tlc_message message)
{
    (void)net;
    return from == gone || to == gone ? (tlc_message){NULL, 0} : message;
}

/* A step of all but `gone`. */
static void step_of_others(network *net, uint64_t seed)
{
    for (uint32_t i = 0; i < NODES; i++)
        if (i != gone) {
            move_node(net, i, seed);
            require_status(push_node(net, i), TLC_OK);
        }
    for (uint32_t i = 0; i < NODES; i++)
        if (i != gone)
            require_status(pull_node(net, i), TLC_OK);
}

/* The mean of node i, which has lost neighbour `lost`: its share is that of the node itself. */
static void require_mean_without(network *net, uint32_t i, uint32_t lost)
{
    const node *n = &net->node[i];

    for (size_t k = 0; net->kind == TLC_GOSSIP_DCD && k < net->tensors[WIDE].n; k++) {
        const float own = tlc_gossip_model(n->g, WIDE)[k];
        float mean = own;
        for (size_t j = 0; j < n->degree; j++)
            if (n->neighbours[j] != lost) {
                const float theirs = tlc_gossip_model(net->node[n->neighbours[j]].g, WIDE)[k];
                const float difference = theirs - own, share = (float)n->weights[j] * difference;
                mean += share;
            }
        require(float_bits(tlc_gossip_mean(n->g, WIDE)[k]) == float_bits(mean));
    }
}

/* Node 1 dies in step 3. The others go on; it comes back with a model of its own, or with the one it had. */
static void comes_back(tlc_gossip_kind kind, const char *codec, int with_model)
{
    network net;

    gone = 1;
    network_ring(&net, kind, NODES, codec, 2);
    net.via = drop;
    network_move(&net, 3);
    for (uint32_t i = 0; i < NODES; i++)
        require_status(push_node(&net, i), TLC_OK);
    for (uint32_t i = 0; i < NODES; i += 2) {
        NODE_REFUSED(&net, i, pull_node(&net, i), TLC_ERR_CORRUPT);
        require_told(&net, i, TLC_ERR_CORRUPT, TLC_ERR_CORRUPT, 1, "no message came from node 1");
        require(!tlc_gossip_lost(net.node[i].g, edge_of(&net, i, 1)));
        require_status(tlc_gossip_lose(net.node[i].g, edge_of(&net, i, 1)), TLC_OK);
        require(tlc_gossip_lost(net.node[i].g, edge_of(&net, i, 1)));
        require_status(tlc_gossip_lose(net.node[i].g, edge_of(&net, i, 1)), TLC_OK); /* once more */
        require_status(pull_node(&net, i), TLC_OK);
        require((node_outcome(&net, i).taken[0] & 1 << 1) == 0);
        require_mean_without(&net, i, 1);
    }
    require_status(pull_node(&net, 3), TLC_OK);
    require(!tlc_gossip_lost(net.node[3].g, 0) && !tlc_gossip_lost(net.node[3].g, 1));
    const uint64_t sent = node_stats(&net, 0).sent;
    step_of_others(&net, 4);
    require(node_stats(&net, 0).sent == sent + net.node[0].push.len); /* to one neighbour */
    require_mean_without(&net, 0, 1);

    require_status(tlc_gossip_join(net.node[1].g, 5, with_model ? network_start(&net) : NULL), TLC_OK);
    require(tlc_gossip_step(net.node[1].g) == 5);
    for (size_t k = 0; k < 2; k++)
        require(tlc_gossip_lost(net.node[1].g, k));
    for (size_t t = 0; t < NET_TENSORS; t++) { /* all replicas are lost: the mean is its own */
        const size_t size = net.tensors[t].n * sizeof(float);
        require(same(tlc_gossip_mean(net.node[1].g, t), tlc_gossip_model(net.node[1].g, t), size));
        require(!with_model || same(tlc_gossip_model(net.node[1].g, t), net.start[t], size));
    }
    net.via = NULL;
    for (uint32_t i = 0; i < NODES; i++)
        require_status(tlc_gossip_hello(net.node[i].g, 0, &net.node[i].hello), TLC_OK);
    for (uint32_t i = 0; i < 3; i++) { /* a short hello is fine, but brings no replica */
        require_status(greet_node(&net, i), TLC_OK);
        require(i == 1 || tlc_gossip_lost(net.node[i].g, edge_of(&net, i, 1)));
    }
    for (uint32_t i = 0; i < NODES; i++)
        require_status(tlc_gossip_hello(net.node[i].g, 1, &net.node[i].hello), TLC_OK);
    for (uint32_t i = 0; i < NODES; i++) {
        require_status(greet_node(&net, i), TLC_OK);
        for (size_t k = 0; k < 2; k++)
            require(!tlc_gossip_lost(net.node[i].g, k));
    }
    require_mean_without(&net, 0, TLC_NOBODY);
    network_greet(&net);
    close_ring(&net);
}

TEST(lost_and_back)
{
    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++)
            for (int with_model = 0; with_model < 2; with_model++)
                comes_back(kind, *codec, with_model);
}

/* What a node that joined gets wrong. */
TEST(joins)
{
    FOR_EACH_GOSSIP(kind) {
        const float *model[NET_TENSORS];
        float bad[131];
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_gossip *g = net.node[1].g;
        for (size_t t = 0; t < NET_TENSORS; t++)
            model[t] = net.start[t];
        model[WIDE] = bad;
        memcpy(bad, net.start[WIDE], sizeof bad);
        bad[130] = NAN;
        NODE_REFUSED(&net, 1, tlc_gossip_join(g, 7, model), TLC_ERR_NONFINITE);
        require_told(&net, 1, TLC_ERR_NONFINITE, TLC_ERR_NONFINITE, TLC_NOBODY,
                     "NaN or infinity in tensor \"wide\" of the model");
        require(node_outcome(&net, 1).tensor == WIDE);
        model[WIDE] = NULL;
        NODE_REFUSED(&net, 1, tlc_gossip_join(g, 7, model), TLC_ERR_PARAM);
        network_move(&net, 3);
        network_push(&net);
        NODE_REFUSED(&net, 1, tlc_gossip_join(g, 3, NULL), TLC_ERR_ORDER);
        NODE_REFUSED(&net, 1, tlc_gossip_join(g, 1, NULL), TLC_ERR_ORDER);
        require_status(tlc_gossip_join(g, 4, NULL), TLC_OK); /* a step is under way, and it goes on with a later one */
        require(tlc_gossip_step(g) == 4);
        require_status(tlc_gossip_again(g, 3, &net.node[1].push), TLC_ERR_PARAM); /* forgotten */
        require_status(tlc_gossip_join(g, 2, NULL), TLC_OK);                      /* between two steps, any */
        require(tlc_gossip_step(g) == 2);
        require_status(tlc_gossip_join(g, UINT64_C(1) << 62, NULL), TLC_OK);
        network_close(&net);
    }
}

/* A step that a neighbour has not ended yet: the push is fetched again from a node that is in the next one. */
TEST(behind)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "natural", 2);
        network_move(&net, 3);
        network_push(&net);
        for (uint32_t i = 0; i < NODES; i++)
            if (i != 1)
                require_status(pull_node(&net, i), TLC_OK);
        for (uint32_t i = 0; i < NODES; i++)
            if (i != 1) {
                move_node(&net, i, 4);
                require_status(push_node(&net, i), TLC_OK);
            }
        NODE_REFUSED(&net, 1, pull_node(&net, 1), TLC_ERR_ORDER);
        require_told(&net, 1, TLC_ERR_ORDER, TLC_ERR_ORDER, 0, "node 0 sent step 4, this is step 3");
        NODE_REFUSED(&net, 2, pull_node(&net, 2), TLC_ERR_ORDER);
        require_told(&net, 2, TLC_ERR_ORDER, TLC_ERR_ORDER, 1, "node 1 sent step 3, this is step 4");
        for (uint32_t i = 0; i < NODES; i += 2)
            require_status(tlc_gossip_again(net.node[i].g, 3, &net.node[i].push), TLC_OK);
        require_status(pull_node(&net, 1), TLC_OK);
        move_node(&net, 1, 4);
        require_status(push_node(&net, 1), TLC_OK);
        for (uint32_t i = 0; i < NODES; i += 2)
            require_status(tlc_gossip_again(net.node[i].g, 4, &net.node[i].push), TLC_OK);
        network_pull(&net);
        require_all_pulled(&net);
        close_ring(&net);
    }
}
