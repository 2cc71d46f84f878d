/* SPDX-License-Identifier: MIT
 *
 * Messages of gossip that are altered, or of somebody else: the call is refused, tells why, and changes nothing. The
 * right message is taken afterwards, with the very bytes of a twin that was left alone.
 */
#include "../support/gossip_run.h"
#include <math.h>

enum { NODES = 4, SHORTEST = 18 }; /* bytes: a shorter message has no place for what each must have */

/* Two networks after two steps. One will be left alone. */
static void open_twins(network *a, network *b, tlc_gossip_kind kind, const char *codec)
{
    network_ring(a, kind, NODES, codec, 2);
    network_ring(b, kind, NODES, codec, 2);
}

static void close_twins(network *a, network *b)
{
    require_same_networks(a, b);
    network_greet(a);
    network_close(a);
    network_close(b);
}

/* ---- any byte ---------------------------------------------------------------------------------------------------- */

/* Every byte of a message is altered, it is cut everywhere, and a byte is added. */
static void alter(network *net, taking *take, tlc_message valid)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    uint8_t *p = bytes(valid.len + 1);

    memcpy(p, valid.data, valid.len);
    p[valid.len] = 0;
    require_refused(net, take, (tlc_message){p, valid.len + 1}, TLC_ERR_CHECKSUM);
    require_refused(net, take, (tlc_message){NULL, valid.len}, TLC_ERR_CORRUPT);
    for (size_t i = 1; i < valid.len; i += quick() ? 7 : 1)
        require_refused(net, take, (tlc_message){p, i}, i < SHORTEST ? TLC_ERR_CORRUPT : TLC_ERR_CHECKSUM);
    for (size_t i = 0; i < valid.len; i += quick() ? 7 : 1)
        for (size_t k = 0; k < COUNT(flips); k++) {
            at.i = i;
            p[i] ^= flips[k];
            require_refused(net, take, (tlc_message){p, valid.len},
                            i == 0   ? TLC_ERR_CORRUPT
                            : i == 1 ? TLC_ERR_VERSION
                                     : TLC_ERR_CHECKSUM);
            p[i] ^= flips[k];
        }
    free(p);
}

TEST(altered_messages)
{
    FOR_EACH_GOSSIP(kind) {
        network a, b;
        open_twins(&a, &b, kind, kind == TLC_GOSSIP_DCD ? "random-sparse" : "qsgd");
        for (int full = 0; full < 2; full++) {
            network_hello(&a, full);
            alter(&a, greet_node, a.node[1].hello);
            require_status(greet_node(&a, 0), TLC_OK);
        }
        network_move(&a, 3);
        network_push(&a);
        alter(&a, pull_node, a.node[1].push);
        network_pull(&a);
        require_all_pulled(&a);
        network_step(&b, 3);
        close_twins(&a, &b);
    }
}

/* ---- with a right checksum --------------------------------------------------------------------------------------- */

/* Node 0 took an altered push. It is made to be where it was. */
static void restore(network *net, tlc_message before)
{
    require_status(node_load(net, 0, before), TLC_OK);
    require_status(push_node(net, 0), TLC_OK);
}

/* Gives altered forms of a valid message, which lie before a guard page. changes: what is taken may change the node.
 * Then it is made to be where it was, if `before` is not empty. */
static void attack(network *net, taking *take, tlc_message valid, int changes, tlc_message before)
{
    static const uint8_t flips[] = {0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff};
    const size_t some = quick() ? 2 : COUNT(flips);
    size_t refused = 0;
    guard_buffer guard;

    require(guard_alloc(&guard, valid.len) == 0);
    for (size_t i = 0; i < valid.len; i += quick() ? 3 : 1)
        for (size_t how = 0; how <= some; how++) {
            const size_t len = how < some ? valid.len : i;
            tlc_message message = {guard_at_end(&guard, len), len};
            uint8_t *p = guard_at_end(&guard, len);
            memcpy(p, valid.data, len);
            if (how < some)
                p[i] ^= flips[how];
            blob_seal(p, len);
            at.i = i;
            tlc_message seen = node_look(net, 0);
            const tlc_status status = take_forged(net, take, message);
            require(status == TLC_OK || how < some || status == TLC_ERR_CORRUPT);
            if (status || !changes) {
                require(!status || (node_outcome(net, 0).rank == 1 && node_outcome(net, 0).status == status));
                tlc_message now = node_look(net, 0);
                require(blob_same(seen, now));
                refused += status != TLC_OK;
                blob_free(&now);
            } else if (before.len)
                restore(net, before);
            blob_free(&seen);
        }
    require(refused > valid.len / (quick() ? 3 : 1));
    guard_free(&guard);
}

TEST(sealed_pushes)
{
    static const char *const texts[] = {"raw", "qsgd", "random-sparse", "stochastic-ternary+golomb"};

    FOR_EACH_GOSSIP(kind)
        for (size_t c = 0; c < COUNT(texts); c++) {
            network a, b;
            open_twins(&a, &b, kind, texts[c]);
            network_move(&a, 3);
            tlc_message before = node_save(&a, 0);
            network_push(&a);
            attack(&a, pull_node, a.node[1].push, 1, before);
            network_pull(&a);
            require_all_pulled(&a);
            network_step(&b, 3);
            blob_free(&before);
            close_twins(&a, &b);
        }
}

/* A short hello that is taken changes nothing either. A full one changes the replica, and the right one brings it
 * back. */
TEST(sealed_hellos)
{
    FOR_EACH_GOSSIP(kind)
        for (int full = 0; full < 2; full++) {
            network a, b;
            open_twins(&a, &b, kind, "qsgd");
            tlc_message none = {NULL, 0};
            network_hello(&a, full);
            attack(&a, greet_node, a.node[1].hello, full, none);
            require_status(greet_node(&a, 0), TLC_OK);
            network_step(&a, 3);
            network_step(&b, 3);
            require_all_pulled(&a);
            close_twins(&a, &b);
        }
}

/* The same message with another number of frames: some are missing, or there are more, which are empty. So is frame
 * `emptied`. */
static tlc_message with_frames(tlc_message message, uint32_t count, uint32_t emptied)
{
    enum { CHECKSUM = 4 };
    tlc_bundle_writer w;
    tlc_bundle_reader r;
    const size_t begin = open_bundle(message, &r);
    tlc_message bundle;
    size_t room;

    require(begin > 0);
    require_status(tlc_bundle_bound(count, message.len, &room), TLC_OK);
    uint8_t *p = bytes(begin + room + CHECKSUM), *q = bytes(room);
    require_status(tlc_bundle_init(&w, q, room, count), TLC_OK);
    for (uint32_t i = 0; i < count; i++) {
        const void *frame = NULL;
        size_t len = 0;
        (void)tlc_bundle_next(&r, &frame, &len);
        require_status(tlc_bundle_add(&w, frame, i == emptied ? 0 : len), TLC_OK);
    }
    require_status(tlc_bundle_finish(&w, &bundle), TLC_OK);
    memcpy(p, message.data, begin);
    memcpy(p + begin, bundle.data, bundle.len);
    blob_seal(p, begin + bundle.len + CHECKSUM);
    free(q);
    return (tlc_message){p, begin + bundle.len + CHECKSUM};
}

static void require_frames(network *net, taking *take, tlc_message valid)
{
    static const size_t of_frame[] = {CONV, WIDE, OWN, BIAS}; /* the last has those of GAIN, too */
    tlc_bundle_reader r;

    require(open_bundle(valid, &r));
    for (uint32_t count = 0; count < tlc_bundle_count(&r) + 3; count++) {
        tlc_message message = with_frames(valid, count, TLC_NOBODY);
        at.i = count;
        if (count == tlc_bundle_count(&r))
            require(blob_same(message, valid));
        else
            REFUSED(net, take, message, TLC_ERR_CORRUPT, "the message of node 1 is truncated or altered");
        blob_free(&message);
    }
    require(tlc_bundle_count(&r) == COUNT(of_frame));
    for (uint32_t i = 0; i < COUNT(of_frame); i++) {
        tlc_message message = with_frames(valid, COUNT(of_frame), i);
        char sentence[200];
        snprintf(sentence, sizeof sentence, "node 1: a bad frame of tensor \"%s\": the bytes are truncated or altered",
                 net_tensors[of_frame[i]].name);
        REFUSED(net, take, message, TLC_ERR_CORRUPT, sentence);
        require(node_outcome(net, 0).tensor == of_frame[i]);
        blob_free(&message);
    }
}

TEST(wrong_frames)
{
    FOR_EACH_GOSSIP(kind) {
        network a, b;
        open_twins(&a, &b, kind, "qsgd");
        network_hello(&a, 1);
        require_frames(&a, greet_node, a.node[1].hello);
        network_move(&a, 3);
        network_push(&a);
        require_frames(&a, pull_node, a.node[1].push);
        network_pull(&a);
        require_all_pulled(&a);
        network_step(&b, 3);
        close_twins(&a, &b);
    }
}

/* ---- messages of others ------------------------------------------------------------------------------------------ */

/* Messages of a node that differs in one thing. sentence NULL: in its kind, of which both messages tell. */
static void require_stranger(network *net, const tlc_exchange_config *cfg, tlc_gossip_kind kind, const char *sentence)
{
    network other;

    network_open(&other, cfg, kind, NULL);
    require_status(tlc_gossip_hello(other.node[1].g, 1, &other.node[1].hello), TLC_OK);
    const char *words[] = {"DCD", "ECD"}, *came = words[kind == TLC_GOSSIP_ECD],
               *should = words[net->kind == TLC_GOSSIP_ECD];
    char text[200];

    snprintf(text, sizeof text, "the message of node 1 is a hello of gossip (%s), not a hello of gossip (%s)", came,
             should);
    REFUSED(net, greet_node, other.node[1].hello, TLC_ERR_PARAM, sentence ? sentence : text);
    network_move(net, 1);
    network_move(&other, 1);
    network_push(net);
    network_push(&other);
    snprintf(text, sizeof text, "the message of node 1 is a push of gossip (%s), not a push of gossip (%s)", came,
             should);
    REFUSED(net, pull_node, other.node[1].push, TLC_ERR_PARAM, sentence ? sentence : text);
    network_pull(net);
    require_all_pulled(net);
    for (uint32_t i = 0; i < NODES; i++) /* back to step 1 */
        require_status(tlc_gossip_join(net->node[i].g, 1, network_start(net)), TLC_OK);
    network_hello(net, 1);
    for (uint32_t i = 0; i < NODES; i++)
        require_status(greet_node(net, i), TLC_OK);
    network_close(&other);
}

TEST(strangers)
{
    static const char settings[] = "node 1 has other tensors, codecs or settings";

    FOR_EACH_GOSSIP(kind) {
        const tlc_exchange_config cfg = network_config(kind, NODES);
        tlc_exchange_config other = cfg;
        network net;
        network_open(&net, &cfg, kind, NULL);
        require_stranger(&net, &cfg, kind == TLC_GOSSIP_DCD ? TLC_GOSSIP_ECD : TLC_GOSSIP_DCD, NULL);
        other.push = "qsgd:bits=4";
        require_stranger(&net, &other, kind, settings);
        other = cfg;
        other.min_n = 50; /* another tensor is raw */
        require_stranger(&net, &other, kind, settings);
        other = cfg;
        other.workers = NODES + 1;
        require_stranger(&net, &other, kind, settings);
        network_close(&net);
    }
}

/* A message of another neighbour, or of another phase. */
TEST(wrong_messages)
{
    FOR_EACH_GOSSIP(kind) {
        network a, b;
        open_twins(&a, &b, kind, "qsgd");
        network_hello(&a, 0);
        REFUSED(&a, greet_node, a.node[3].hello, TLC_ERR_PARAM, "the message of node 1 was made by number 3");
        REFUSED(&a, greet_node, a.node[0].hello, TLC_ERR_PARAM, "the message of node 1 was made by number 0");
        tlc_message hello = blob_copy(a.node[1].hello);
        char text[200];
        const char *word = kind == TLC_GOSSIP_DCD ? "DCD" : "ECD";
        snprintf(text, sizeof text, "the message of node 1 is a push of gossip (%s), not a hello of gossip (%s)", word,
                 word);
        REFUSED(&a, greet_node, a.node[1].push, TLC_ERR_PARAM, text);
        network_move(&a, 3);
        network_push(&a);
        REFUSED(&a, pull_node, a.node[3].push, TLC_ERR_PARAM, "the message of node 1 was made by number 3");
        REFUSED(&a, pull_node, a.node[0].push, TLC_ERR_PARAM, "the message of node 1 was made by number 0");
        snprintf(text, sizeof text, "the message of node 1 is a hello of gossip (%s), not a push of gossip (%s)", word,
                 word);
        REFUSED(&a, pull_node, hello, TLC_ERR_PARAM, text);
        REFUSED(&a, pull_node, ((tlc_message){NULL, 0}), TLC_ERR_CORRUPT, "no message came from node 1");
        network_pull(&a);
        require_all_pulled(&a);
        network_hello(&a, 0);
        REFUSED(&a, greet_node, hello, TLC_ERR_ORDER, "node 1 sent step 3, this is step 4");
        blob_free(&hello);
        network_step(&b, 3);
        close_twins(&a, &b);
    }
}

/* The push of node 1, with another first value in the frame of WIDE. */
static tlc_message with_value(const network *net, float value)
{
    tlc_message push = blob_copy(net->node[1].push);
    float *values[NET_TENSORS];

    for (size_t t = 0; t < NET_TENSORS; t++)
        values[t] = floats(net->tensors[t].n);
    require(read_push(net, push, values));
    uint8_t *p = find_number(push, float_bits(values[WIDE][0]) | (uint64_t)float_bits(values[WIDE][1]) << 32);
    for (size_t b = 0; b < 4; b++)
        p[b] = (uint8_t)(float_bits(value) >> 8 * b);
    blob_seal((uint8_t *)(uintptr_t)push.data, push.len);
    for (size_t t = 0; t < NET_TENSORS; t++)
        free(values[t]);
    return push;
}

/* No node sends what makes its model, or its estimate, infinite or NaN. Who gets such a push loses the replica, and
 * goes on. A full hello brings it back. */
TEST(frames_not_finite)
{
    static const uint32_t wrong[] = {0x7fc00000, 0xffc00001, 0x7f800000, 0xff800000};

    FOR_EACH_GOSSIP(kind)
        for (size_t i = 0; i < COUNT(wrong); i++) {
            network net;
            network_ring(&net, kind, NODES, "raw", 2);
            network_move(&net, 3);
            network_push(&net);
            at.i = i;
            tlc_message push = with_value(&net, bits_float(wrong[i]));
            require_status(take_forged(&net, pull_node, push), TLC_OK);
            require_told(&net, 0, TLC_OK, TLC_ERR_NONFINITE, 1,
                         "node 1: NaN or infinity in the replica of tensor \"wide\"");
            const tlc_outcome o = node_outcome(&net, 0);
            require(o.tensor == WIDE && o.taken[0] == (1 << 0 | 1 << 3));
            require(tlc_gossip_lost(net.node[0].g, edge_of(&net, 0, 1)));
            require(!tlc_gossip_lost(net.node[0].g, edge_of(&net, 0, 3)));
            for (uint32_t k = 1; k < NODES; k++)
                require_status(pull_node(&net, k), TLC_OK);
            tlc_message saved = node_save(&net, 0);
            require_status(node_load(&net, 0, saved), TLC_OK);
            network_step(&net, 4);
            require_all_pulled(&net);
            for (uint32_t k = 0; k < NODES; k++)
                require(node_stats(&net, k).failed == 0);
            network_hello(&net, 1);
            require_status(greet_node(&net, 0), TLC_OK);
            require(!tlc_gossip_lost(net.node[0].g, edge_of(&net, 0, 1)));
            network_greet(&net);
            blob_free(&saved);
            blob_free(&push);
            network_close(&net);
        }
}
