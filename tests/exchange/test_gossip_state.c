/* SPDX-License-Identifier: MIT
 *
 * States of gossip: a node goes on with the same bits, another number of nodes begins with the mean of all models,
 * names and neighbours that find nothing are told, states of two runs are refused. (States at fault:
 * test_gossip_altered_state.c.)
 */
#include "../support/gossip_run.h"
#include <float.h>
#include <math.h>

enum { NODES = 5, NODES_MAX = 13 };

static void open_ring(network *net, tlc_gossip_kind kind, uint32_t nodes, const char *codec)
{
    tlc_exchange_config cfg = network_config(kind, nodes);

    cfg.push = at.codec = codec;
    cfg.reserve = "raw;natural";
    network_open(net, &cfg, kind, NULL);
}

static void take_steps(network *net, uint64_t from, uint64_t to)
{
    for (uint64_t step = from; step < to; step++) {
        network_step(net, step);
        require_all_pulled(net);
    }
}

static void save_all(const network *net, tlc_message *states)
{
    for (uint32_t i = 0; i < net->nodes; i++)
        states[i] = node_save(net, i);
}

static void free_all(tlc_message *states, size_t count)
{
    for (size_t i = 0; i < count; i++)
        blob_free(&states[i]);
}

/* ---- the same run ------------------------------------------------------------------------------------------------ */

static void require_same_messages(const network *a, const network *b)
{
    for (uint32_t i = 0; i < a->nodes; i++)
        require(blob_same(a->node[i].push, b->node[i].push));
}

TEST(goes_on)
{
    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++) {
            tlc_message states[NODES];
            network a, b;
            open_ring(&a, kind, NODES, *codec);
            open_ring(&b, kind, NODES, *codec);
            take_steps(&a, 1, 4);
            take_steps(&b, 1, 1 + (uint64_t)(codec - unbiased_codecs()) % 7); /* what was before does not matter */
            save_all(&a, states);
            for (uint32_t i = 0; i < NODES; i++) {
                require_status(node_load(&b, i, states[i]), TLC_OK);
                require_told(&b, i, TLC_OK, TLC_OK, TLC_NOBODY,
                             "entries of the states without a place here: 0; tensors in no state: 0");
                require(tlc_gossip_step(b.node[i].g) == 4);
            }
            require_same_networks(&a, &b);
            network_greet(&b);
            for (uint64_t step = 4; step < 7; step++) {
                take_steps(&a, step, step + 1);
                take_steps(&b, step, step + 1);
                require_same_messages(&a, &b);
            }
            require_same_networks(&a, &b);
            free_all(states, NODES);
            network_close(&a);
            network_close(&b);
        }
}

/* Codecs that were set, and neighbours that are lost, are in the state. */
TEST(codecs_and_losses)
{
    FOR_EACH_GOSSIP(kind) {
        network a, b;
        open_ring(&a, kind, NODES, "qsgd");
        open_ring(&b, kind, NODES, "qsgd");
        require_status(tlc_gossip_set_codec(a.node[1].g, TLC_ALL, "natural"), TLC_OK);
        require_status(tlc_gossip_set_codec(a.node[1].g, CONV, "raw"), TLC_OK);
        take_steps(&a, 1, 3);
        require_status(tlc_gossip_lose(a.node[1].g, edge_of(&a, 1, 2)), TLC_OK);
        tlc_message saved = node_save(&a, 1);
        require_status(tlc_gossip_lose(b.node[1].g, edge_of(&b, 1, 0)), TLC_OK);
        require_status(node_load(&b, 1, saved), TLC_OK);
        require(tlc_gossip_lost(b.node[1].g, edge_of(&b, 1, 2)) && !tlc_gossip_lost(b.node[1].g, edge_of(&b, 1, 0)));
        for (size_t t = 0; t < NET_TENSORS; t++)
            require(
                same(tlc_gossip_mean(a.node[1].g, t), tlc_gossip_mean(b.node[1].g, t), a.tensors[t].n * sizeof(float)));
        move_node(&a, 1, 3);
        move_node(&b, 1, 3);
        require_status(push_node(&a, 1), TLC_OK);
        require_status(push_node(&b, 1), TLC_OK);
        require(blob_same(a.node[1].push, b.node[1].push));
        network without; /* it has no room for these codecs */
        network_ring(&without, kind, NODES, "qsgd", 0);
        NODE_REFUSED(&without, 1, node_load(&without, 1, saved), TLC_ERR_CAPACITY);
        require(node_outcome(&without, 1).tensor == CONV);
        require(strstr(node_outcome(&without, 1).sentence, "node 1: tensor 1 (\"conv\"): the codec of state 0, "));
        require(strstr(node_outcome(&without, 1).sentence, "does not fit here, where there is "));
        network_close(&without);
        blob_free(&saved);
        network_close(&a);
        network_close(&b);
    }
}

/* Earlier messages are not kept when a state is loaded: they may be of another run. */
TEST(messages_are_forgotten)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_message kept;
        network net;
        open_ring(&net, kind, NODES, "qsgd");
        take_steps(&net, 1, 3);
        tlc_message saved = node_save(&net, 0);
        require_status(tlc_gossip_again(net.node[0].g, 2, &kept), TLC_OK);
        require_status(node_load(&net, 0, saved), TLC_OK);
        require_status(tlc_gossip_again(net.node[0].g, 2, &kept), TLC_ERR_PARAM);
        blob_free(&saved);
        network_close(&net);
    }
}

TEST(capacity)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        open_ring(&net, kind, NODES, "qsgd");
        const size_t size = tlc_gossip_state_size(net.node[0].g);
        uint8_t *p = memset(bytes(size), OUT_FILL, size);
        size_t written = 77;
        require_status(tlc_gossip_state_save(net.node[0].g, p, size - 1, &written), TLC_ERR_CAPACITY);
        require_status(tlc_gossip_state_save(net.node[0].g, NULL, size, &written), TLC_ERR_PARAM);
        require_status(tlc_gossip_state_save(net.node[0].g, p, size, NULL), TLC_ERR_PARAM);
        require(all_bytes(p, size, OUT_FILL) && written == 77);
        free(p);
        network_close(&net);
    }
}

/* A node that is alone, and has no tensors. */
TEST(nothing)
{
    FOR_EACH_GOSSIP(kind) {
        const double weight = 1;
        tlc_exchange_config cfg = network_config(kind, 1);
        tlc_message push;
        uint8_t saved[64];
        size_t written;
        tlc_gossip *g;
        require_status(tlc_gossip_create(&g, &cfg, kind, 0, NULL, &weight, 0, NULL, 0, NULL), TLC_OK);
        require_status(tlc_gossip_push(g, NULL, &push), TLC_OK);
        require_status(tlc_gossip_pull(g, NULL), TLC_OK);
        require_status(tlc_gossip_hello(g, 1, &push), TLC_OK);
        require_status(tlc_gossip_greet(g, NULL), TLC_OK);
        require_status(tlc_gossip_state_save(g, saved, sizeof saved, &written), TLC_OK);
        require(written == tlc_gossip_state_size(g));
        require_status(tlc_gossip_join(g, 9, NULL), TLC_OK);
        require_status(tlc_gossip_state_load(g, &(tlc_message){saved, written}, 1), TLC_OK);
        require(tlc_gossip_step(g) == 2);
        tlc_gossip_destroy(g);
    }
}

/* ---- another number of nodes ------------------------------------------------------------------------------------- */

/* All models are the mean of those of the other run, in the same bits, and so are replicas. */
static void require_mean_of(network *net, const network *old)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        for (size_t k = 0; k < net->tensors[t].n; k++) {
            const float got = tlc_gossip_model(net->node[0].g, t)[k];
            double sum = 0, most = 0;
            for (uint32_t i = 0; i < old->nodes; i++) {
                const float x = tlc_gossip_model(old->node[i].g, t)[k];
                sum += x;
                most = fmax(most, fabs((double)x));
            }
            require(fabs(got - sum / old->nodes) <= old->nodes * 0x1p-23 * most);
            for (uint32_t i = 0; i < net->nodes; i++) {
                require(float_bits(tlc_gossip_model(net->node[i].g, t)[k]) == float_bits(got));
                require(tlc_gossip_mean(net->node[i].g, t)[k] == got);
            }
        }
    network_greet(net);
}

TEST(other_numbers)
{
    static const uint32_t numbers[] = {5, 13, 1, 8};

    FOR_EACH_GOSSIP(kind)
        for (size_t c = 0; c < COUNT(numbers); c++) {
            tlc_message states[8], turned[8];
            network a, b;
            open_ring(&a, kind, 8, "qsgd");
            open_ring(&b, kind, numbers[c], "qsgd");
            take_steps(&a, 1, 4);
            save_all(&a, states);
            for (size_t i = 0; i < 8; i++) /* in any order */
                turned[i] = states[(3 * i + 2) % 8];
            if (numbers[c] > 1)
                require_status(tlc_gossip_lose(b.node[0].g, 0), TLC_OK);
            for (uint32_t i = 0; i < numbers[c]; i++) {
                require_status(tlc_gossip_state_load(b.node[i].g, i % 2 ? turned : states, 8), TLC_OK);
                require(tlc_gossip_step(b.node[i].g) == 4 && !tlc_gossip_lost(b.node[i].g, 0));
            }
            require_mean_of(&b, &a);
            take_steps(&b, 4, 7);
            network_greet(&b);
            free_all(states, 8);
            network_close(&a);
            network_close(&b);
        }
}

/* The mean of large models is finite, too. */
TEST(large_models)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_message states[2];
        network a, b;
        open_ring(&a, kind, 2, "raw");
        open_ring(&b, kind, 3, "raw");
        for (uint32_t i = 0; i < 2; i++) {
            const float large = i ? -0.75f * FLT_MAX : 0.75f * FLT_MAX;
            memcpy(a.start[CONV], &large, sizeof large);
            require_status(tlc_gossip_join(a.node[i].g, 3, (const float *const *)a.start), TLC_OK);
        }
        save_all(&a, states);
        for (uint32_t i = 0; i < 3; i++)
            require_status(tlc_gossip_state_load(b.node[i].g, states, 2), TLC_OK);
        require_mean_of(&b, &a);
        free_all(states, 2);
        network_close(&a);
        network_close(&b);
    }
}

/* ---- names and neighbours ---------------------------------------------------------------------------------------- */

/* Tensors that are in no state keep their model, and their replicas are equal to it. own: of the same node; else of all
 * nodes of a run of one node more. */
static void load_other_names(tlc_gossip_kind kind, int own)
{
    tlc_message states[NODES_MAX];
    network a, b;
    float kept[131];

    open_ring(&a, kind, own ? NODES : NODES + 1, "qsgd");
    open_ring(&b, kind, NODES, "qsgd");
    take_steps(&a, 1, 3);
    save_all(&a, states);
    b.tensors[WIDE].name = "head";
    b.tensors[GAIN].name = "tail";
    for (uint32_t i = 0; i < NODES; i++) {
        tlc_gossip_destroy(b.node[i].g);
        require_status(network_make(&b, &b.cfg, i, &b.node[i].g), TLC_OK);
    }
    take_steps(&b, 1, 5);
    for (uint32_t i = 0; i < NODES; i++) {
        memcpy(kept, tlc_gossip_model(b.node[i].g, WIDE), sizeof kept);
        require_status(tlc_gossip_state_load(b.node[i].g, own ? &states[i] : states, own ? 1 : NODES + 1), TLC_OK);
        const tlc_outcome o = node_outcome(&b, i);
        const size_t unknown = own ? 2 : (size_t)2 * (NODES + 1);
        char sentence[200];
        snprintf(
            sentence, sizeof sentence,
            "entries of the states without a place here: %zu, first \"wide\"; tensors in no state: 2, first \"head\"",
            unknown);
        require(o.unknown == unknown && o.missing == 2 && o.tensor == WIDE);
        require_told(&b, i, TLC_OK, TLC_OK, TLC_NOBODY, sentence);
        require(same(tlc_gossip_model(b.node[i].g, WIDE), kept, sizeof kept));
        for (size_t k = 0; k < COUNT(kept); k++)
            require(tlc_gossip_mean(b.node[i].g, WIDE)[k] == kept[k]);
        require(!own || same(tlc_gossip_model(b.node[i].g, CONV), tlc_gossip_model(a.node[i].g, CONV),
                             net_tensors[CONV].n * sizeof(float)));
    }
    free_all(states, a.nodes);
    network_close(&a);
    network_close(&b);
}

TEST(other_names)
{
    FOR_EACH_GOSSIP(kind)
        for (int own = 0; own < 2; own++)
            load_other_names(kind, own);
}

/* Node 1 had the neighbours 0 and 2. Now it has 4, 2 and 3. */
TEST(other_neighbours)
{
    static const uint32_t neighbours[] = {4, 2, 3};
    static const double weights[] = {0.25, 0.25, 0.25, 0.25};

    FOR_EACH_GOSSIP(kind)
        for (int names = 0; names < 2; names++) {
            network a, b;
            open_ring(&a, kind, NODES, "qsgd");
            open_ring(&b, kind, NODES, "qsgd");
            take_steps(&a, 1, 3);
            tlc_message saved = node_save(&a, 1);
            node *n = &b.node[1];
            n->degree = 3;
            memcpy(n->neighbours, neighbours, sizeof neighbours);
            memcpy(n->weights, weights, sizeof weights);
            for (size_t t = 0; names && t < NET_TENSORS; t++) /* no tensor is in the state */
                b.tensors[t].name = (const char *[]){"a", "b", "c", "d", "e", "f"}[t];
            tlc_gossip_destroy(n->g);
            require_status(network_make(&b, &b.cfg, 1, &n->g), TLC_OK);
            require_status(node_load(&b, 1, saved), TLC_OK);
            require(tlc_gossip_lost(n->g, 0) && !tlc_gossip_lost(n->g, 1) && tlc_gossip_lost(n->g, 2));
            for (size_t k = 0; !names && kind == TLC_GOSSIP_DCD && k < net_tensors[WIDE].n; k++) {
                const float own = tlc_gossip_model(a.node[1].g, WIDE)[k],
                            other = tlc_gossip_model(a.node[2].g, WIDE)[k];
                const float difference = other - own, share = 0.25f * difference;
                require(float_bits(tlc_gossip_mean(n->g, WIDE)[k]) == float_bits(own + share));
            }
            blob_free(&saved);
            network_close(&a);
            network_close(&b);
        }
}

/* One state is of another run, in the same step: models and replicas are not what they are in the other states. */
TEST(states_of_two_runs)
{
    FOR_EACH_GOSSIP(kind)
        for (uint32_t stranger = 0; stranger < NODES; stranger++) {
            tlc_message states[NODES], other[NODES];
            network a, b, more;
            open_ring(&a, kind, NODES, "qsgd");
            open_ring(&b, kind, NODES, "qsgd");
            open_ring(&more, kind, NODES + 1, "qsgd");
            take_steps(&a, 1, 4);
            take_steps(&b, 11, 14);
            save_all(&a, states);
            save_all(&b, other);
            const tlc_message own = states[stranger];
            states[stranger] = other[stranger];
            NODE_REFUSED(&more, 1, tlc_gossip_state_load(more.node[1].g, states, NODES), TLC_ERR_PARAM);
            require(strstr(node_outcome(&more, 1).sentence, " are not of one run: node "));
            NODE_REFUSED(&more, 1, tlc_gossip_state_salvage(more.node[1].g, states, NODES), TLC_ERR_PARAM);
            states[stranger] = own;
            require_status(tlc_gossip_state_load(more.node[1].g, states, NODES), TLC_OK);
            free_all(states, NODES);
            free_all(other, NODES);
            network_close(&a);
            network_close(&b);
            network_close(&more);
        }
}
