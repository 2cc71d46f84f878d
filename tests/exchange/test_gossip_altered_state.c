/* SPDX-License-Identifier: MIT
 *
 * States of gossip that are altered, cut, of something else, or that do not fit together: they are refused and change
 * nothing.
 */
#include "../support/gossip_run.h"
#include <math.h>

/* src/exchange/gossip/gossip_state.c: the fewest bytes of a state, and where it has the number of entries, after three
 * others of a byte each */
enum { NODES = 4, LEAST = 24, ENTRIES = 19 };

/* ---- any byte ---------------------------------------------------------------------------------------------------- */

/* Loads a state beside others, or alone. */
static tlc_status load(const network *net, tlc_message state, const tlc_message *others)
{
    tlc_message states[NODES];

    if (!others)
        return node_load(net, 0, state);
    memcpy(states, others, sizeof states);
    states[2] = state;
    return tlc_gossip_state_load(net->node[0].g, states, NODES);
}

static void alter(network *net, tlc_message valid, const tlc_message *others)
{
    uint8_t *p = bytes(valid.len + 1);

    memcpy(p, valid.data, valid.len);
    p[valid.len] = 0;
    NODE_REFUSED(net, 0, load(net, (tlc_message){p, valid.len + 1}, others), TLC_ERR_CHECKSUM);
    NODE_REFUSED(net, 0, load(net, (tlc_message){NULL, valid.len}, others), TLC_ERR_CORRUPT);
    for (size_t i = 0; i < valid.len; i += quick() ? 11 : 1) {
        tlc_message before = node_look(net, 0);
        at.i = i;
        tlc_status status = load(net, (tlc_message){p, i}, others);
        require(i < LEAST ? status == TLC_ERR_CORRUPT : status == TLC_ERR_CORRUPT || status == TLC_ERR_CHECKSUM);
        p[i] ^= 0x41;
        status = load(net, (tlc_message){p, valid.len}, others);
        require(i < 4    ? status == TLC_ERR_CORRUPT
                : i == 4 ? status == TLC_ERR_VERSION
                         : status == TLC_ERR_CHECKSUM || status == TLC_ERR_CORRUPT);
        p[i] ^= 0x41;
        tlc_message after = node_look(net, 0);
        require(blob_same(before, after));
        blob_free(&before);
        blob_free(&after);
    }
    free(p);
}

/* Altered, with a right checksum, before a guard page. What is taken is used for a step; then the node goes back. */
static void alter_sealed(network *net, tlc_message valid, const tlc_message *others)
{
    static const uint8_t flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff};
    const size_t some = quick() ? 2 : COUNT(flips);
    tlc_message own = node_save(net, 0);
    size_t refused = 0, taken = 0;
    guard_buffer guard;

    require(guard_alloc(&guard, valid.len) == 0);
    for (size_t i = 0; i < valid.len; i += quick() ? 5 : 1)
        for (size_t how = 0; how <= some; how++) {
            const size_t len = how < some ? valid.len : i;
            uint8_t *p = guard_at_end(&guard, len);
            memcpy(p, valid.data, len);
            if (how < some)
                p[i] ^= flips[how];
            blob_seal(p, len);
            at.i = i;
            tlc_message before = node_look(net, 0);
            tlc_status status = load(net, (tlc_message){p, len}, others);
            require(node_outcome(net, 0).status == status);
            if (how == some && i > 8) /* what tells the format is there, before the checksum */
                require_told(net, 0, TLC_ERR_CORRUPT, TLC_ERR_CORRUPT, TLC_NOBODY,
                             others ? "node 0: state 2: the bytes are truncated or altered"
                                    : "node 0: state 0: the bytes are truncated or altered");
            if (status) {
                tlc_message after = node_look(net, 0);
                require(blob_same(before, after));
                blob_free(&after);
                refused++;
            } else {
                require_status(push_node(net, 0), TLC_OK);
                require_status(tlc_gossip_join(net->node[0].g, tlc_gossip_step(net->node[0].g) + 1, NULL), TLC_OK);
                require_status(node_load(net, 0, own), TLC_OK);
                taken++;
            }
            blob_free(&before);
        }
    require(refused > valid.len / 20 && taken);
    guard_free(&guard);
    blob_free(&own);
}

TEST(altered)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_message states[NODES];
        network net, twin;
        network_ring(&net, kind, NODES, "qsgd", 2);
        network_ring(&twin, kind, NODES, "qsgd", 2);
        network_move(&net, 3);
        for (uint32_t i = 0; i < NODES; i++)
            states[i] = node_save(&net, i);
        alter(&net, states[0], NULL);
        alter(&net, states[2], states);
        alter_sealed(&net, states[0], NULL);
        alter_sealed(&net, states[2], states);
        require_status(node_load(&net, 0, states[0]), TLC_OK);
        network_push(&net);
        network_pull(&net);
        require_all_pulled(&net);
        network_step(&twin, 3);
        require_same_networks(&net, &twin);
        for (uint32_t i = 0; i < NODES; i++)
            blob_free(&states[i]);
        network_close(&net);
        network_close(&twin);
    }
}

/* ---- other states ------------------------------------------------------------------------------------------------ */

#define TOLD(net, states, count, want, rank, sentence)                                                                 \
    do {                                                                                                               \
        NODE_REFUSED(net, 0, tlc_gossip_state_load((net)->node[0].g, states, count), want);                            \
        require_told(net, 0, want, want, rank, sentence);                                                              \
    } while (0)

/* Of the node itself at another time, of others, of another kind, of too many or too few. */
TEST(others)
{
    FOR_EACH_GOSSIP(kind) {
        const char *const other_kind = kind == TLC_GOSSIP_DCD ? "node 0: state 0 is not of a node in gossip (DCD)"
                                                              : "node 0: state 0 is not of a node in gossip (ECD)";
        tlc_message states[NODES], list[NODES + 1], stranger;
        network net, five, other;
        network_ring(&net, kind, NODES, "qsgd", 2);
        network_ring(&five, kind, NODES + 1, "qsgd", 2);
        network_ring(&other, kind == TLC_GOSSIP_DCD ? TLC_GOSSIP_ECD : TLC_GOSSIP_DCD, NODES, "qsgd", 2);
        for (uint32_t i = 0; i < NODES; i++)
            list[i] = states[i] = node_save(&net, i);
        TOLD(&net, &states[1], 1, TLC_ERR_PARAM, 0,
             "node 0: the states of nodes 0, 2 and 3 are missing of a run of 4; state_salvage takes them for lost");
        TOLD(&net, states, NODES - 1, TLC_ERR_PARAM, 0,
             "node 0: the state of node 3 is missing of a run of 4; state_salvage takes it for lost");
        stranger = node_save(&other, 0);
        TOLD(&net, &stranger, 1, TLC_ERR_PARAM, 0, other_kind);
        list[3] = stranger;
        TOLD(&net, list, NODES, TLC_ERR_PARAM, 0,
             kind == TLC_GOSSIP_DCD ? "node 0: state 3 is not of a node in gossip (DCD)"
                                    : "node 0: state 3 is not of a node in gossip (ECD)");
        blob_free(&stranger);
        stranger = node_save(&five, 0);
        TOLD(&net, &stranger, 1, TLC_ERR_PARAM, 0,
             "node 0: the states of nodes 1, 2, 3 and 4 are missing of a run of 5; state_salvage takes them for lost");
        list[3] = stranger;
        TOLD(&net, list, NODES, TLC_ERR_PARAM, 0, "node 0: state 3 is of a run of 5 nodes, state 0 of one of 4");
        list[3] = states[1];
        TOLD(&net, list, NODES, TLC_ERR_PARAM, 1, "node 1 has two states");
        list[3] = states[3];
        list[4] = states[0];
        TOLD(&net, list, NODES + 1, TLC_ERR_PARAM, 0, "node 0 has two states");
        network_step(&net, 3);
        list[3] = node_save(&net, 3);
        TOLD(&net, list, NODES, TLC_ERR_PARAM, 3, "node 3: its state is of step 4, that of another is of step 3");
        blob_free(&list[3]);
        TOLD(&net, states, 0, TLC_ERR_PARAM, 0, "node 0: count is 0; at least one state is needed");
        blob_free(&stranger);
        for (uint32_t i = 0; i < NODES; i++)
            blob_free(&states[i]);
        network_close(&net);
        network_close(&five);
        network_close(&other);
    }
}

/* A state of an all-reduce is not one of a node, nor the other way round. */
TEST(other_objects)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, NODES);
        tlc_allreduce *rank;
        network net;
        size_t written;
        network_ring(&net, kind, NODES, "qsgd", 2);
        require_status(tlc_allreduce_create(&rank, &cfg, 0, net.tensors, NET_TENSORS), TLC_OK);
        size_t size = tlc_allreduce_state_size(rank);
        uint8_t *p = bytes(size);
        require_status(tlc_allreduce_state_save(rank, p, size, &written), TLC_OK);
        const tlc_message theirs = {p, size};
        TOLD(&net, &theirs, 1, TLC_ERR_CORRUPT, TLC_NOBODY,
             "node 0: state 0: these are the bytes of a state of a worker, a server or a rank "
             "(threelc/exchange.h), not of a state of a node (threelc/gossip.h)");
        tlc_message ours = node_save(&net, 0);
        require_status(tlc_allreduce_state_load(rank, &ours, 1), TLC_ERR_CORRUPT);
        blob_free(&ours);
        free(p);
        tlc_allreduce_destroy(rank);
        network_close(&net);
    }
}

TEST(other_sizes)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_message saved = node_save(&net, 0);
        net.tensors[WIDE].n--;
        tlc_gossip_destroy(net.node[0].g);
        require_status(network_make(&net, &net.cfg, 0, &net.node[0].g), TLC_OK);
        TOLD(&net, &saved, 1, TLC_ERR_SIZE, 0,
             "node 0: tensor 3 (\"wide\"): it has 131 values in state 0, and 130 here");
        require(node_outcome(&net, 0).tensor == WIDE);
        blob_free(&saved);
        net.tensors[WIDE].n++;
        network_close(&net);
    }
}

/* A tensor that has two entries. */
TEST(entry_twice)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_message saved = node_save(&net, 0);
        const uint8_t *p = saved.data, *first = memmem(p, saved.len, "\4bias", 5),
                      *next = memmem(p, saved.len, "\4conv", 5);
        require(first && next && first < next && p[ENTRIES] == NET_TENSORS - 1);
        const size_t size = (size_t)(next - first), before = (size_t)(next - p);
        uint8_t *q = bytes(saved.len + size);
        const tlc_message twice = {q, saved.len + size};
        memcpy(q, p, before);
        memcpy(q + before, first, size);
        memcpy(q + before + size, next, saved.len - before);
        q[ENTRIES]++;
        blob_seal(q, twice.len);
        TOLD(&net, &twice, 1, TLC_ERR_CORRUPT, TLC_NOBODY,
             "node 0: tensor 0 (\"bias\"): state 0: the bytes are truncated or altered");
        require(node_outcome(&net, 0).tensor == BIAS);
        free(q);
        blob_free(&saved);
        network_close(&net);
    }
}

/* A state that is too short is truncated, of whatever version it seems to be. */
TEST(too_short)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_message saved = node_save(&net, 0);
        ((uint8_t *)(uintptr_t)saved.data)[4]++;
        for (size_t len = 0; len <= LEAST; len++) {
            const tlc_message cut = {saved.data, len};
            at.i = len;
            NODE_REFUSED(&net, 0, node_load(&net, 0, cut), len < LEAST ? TLC_ERR_CORRUPT : TLC_ERR_VERSION);
        }
        blob_free(&saved);
        network_close(&net);
    }
}

/* The number of entries in more bytes than it needs. */
TEST(long_number)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_message saved = node_save(&net, 0);
        const uint8_t *p = saved.data;
        uint8_t *q = bytes(saved.len + 1);
        const tlc_message longer = {q, saved.len + 1};
        require(p[ENTRIES] == NET_TENSORS - 1);
        memcpy(q, p, ENTRIES + 1);
        q[ENTRIES] |= 0x80;
        q[ENTRIES + 1] = 0;
        memcpy(q + ENTRIES + 2, p + ENTRIES + 1, saved.len - ENTRIES - 1);
        blob_seal(q, longer.len);
        TOLD(&net, &longer, 1, TLC_ERR_CORRUPT, TLC_NOBODY, "node 0: state 0: the bytes are truncated or altered");
        free(q);
        blob_free(&saved);
        network_close(&net);
    }
}

/* Bytes after the last entry. */
TEST(too_long)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_message saved = node_save(&net, 0);
        for (size_t more = 1; more < 10; more++) {
            uint8_t *p = memset(bytes(saved.len + more), 0, saved.len + more);
            const tlc_message longer = {p, saved.len + more};
            memcpy(p, saved.data, saved.len - 4);
            blob_seal(p, longer.len);
            at.i = more;
            TOLD(&net, &longer, 1, TLC_ERR_CORRUPT, TLC_NOBODY, "node 0: state 0: the bytes are truncated or altered");
            free(p);
        }
        blob_free(&saved);
        network_close(&net);
    }
}

/* A value of the model that is not finite; a codec that has a bias, or is none. */
TEST(wrong_entries)
{
    static const char *const codecs_of_4[] = {"int8", "4lc:", "topk"}; /* as long as "qsgd" */

    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, NODES, "qsgd", 2);
        tlc_message saved = node_save(&net, 0);
        uint8_t *p = (uint8_t *)(uintptr_t)saved.data, *value = p + saved.len - 4 - 4; /* of a replica */
        const uint8_t nan[] = {0, 0, 0xc0, 0x7f};
        uint8_t right[4];
        memcpy(right, value, sizeof right);
        memcpy(value, nan, sizeof nan);
        blob_seal(p, saved.len);
        TOLD(&net, &saved, 1, TLC_ERR_CORRUPT, TLC_NOBODY,
             "node 0: tensor 5 (\"gain\"): state 0: the bytes are truncated or altered");
        memcpy(value, right, sizeof right);
        uint8_t *codec = memmem(p, saved.len, "qsgd", 4);
        for (size_t i = 0; i < COUNT(codecs_of_4); i++) {
            memcpy(codec, codecs_of_4[i], 4);
            blob_seal(p, saved.len);
            at.i = i;
            NODE_REFUSED(&net, 0, node_load(&net, 0, saved), i == 1 ? TLC_ERR_CORRUPT : TLC_ERR_PARAM);
            require(node_outcome(&net, 0).tensor == CONV);
        }
        memcpy(codec, "qsgd", 4);
        blob_seal(p, saved.len);
        require_status(node_load(&net, 0, saved), TLC_OK);
        blob_free(&saved);
        network_close(&net);
    }
}
