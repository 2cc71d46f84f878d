/* SPDX-License-Identifier: MIT
 *
 * Calls of gossip: codecs that change, calls out of turn, missing arguments, what `_outcome` and `_stats` tell. (More
 * calls that fail: test_exchange_sentences.c.)
 */
#include "../support/gossip_run.h"

enum { NODES = 19 };

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

static const char *const biased[] = {"3lc",  "sbc",      "int8",           "onebit",
                                     "topk", "topk:p=1", "ternary+golomb", "natural:rounding=nearest"};

/* The codec of a tensor, as its frame tells it, is this one or another of the same decoding form. */
static void require_codecs(const network *net, const char *conv, const char *wide)
{
    tlc_message state = node_save(net, 0);
    const char *const want[] = {conv, wide};

    for (size_t i = 0; i < COUNT(want); i++)
        require(memmem(state.data, state.len, want[i], strlen(want[i])) != NULL);
    blob_free(&state);
}

TEST(set_codec)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, 3);
        network net;
        cfg.reserve = reserve_unbiased();
        network_open(&net, &cfg, kind, NULL);
        tlc_gossip *g = net.node[0].g;
        for (size_t i = 0; i < COUNT(biased); i++) {
            at.codec = biased[i];
            NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, TLC_ALL, biased[i]), TLC_ERR_PARAM);
            NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, CONV, biased[i]), TLC_ERR_PARAM);
        }
        NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, TLC_ALL, "4lc"), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, TLC_ALL, ""), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, TLC_ALL, NULL), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, NET_TENSORS, "raw"), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_set_codec(g, BIAS, "raw"), TLC_ERR_PARAM); /* small */
        require_status(tlc_gossip_set_codec(NULL, CONV, "raw"), TLC_ERR_PARAM);
        for (const char *const *codec = unbiased_codecs(); *codec; codec++) {
            at.codec = *codec;
            for (uint32_t i = 0; i < 3; i++) {
                require_status(tlc_gossip_set_codec(net.node[i].g, TLC_ALL, *codec), TLC_OK);
                require_status(tlc_gossip_set_codec(net.node[i].g, CONV, "random-sparse:p=0.6,block=129"), TLC_OK);
            }
            require_codecs(&net, "random-sparse:p=0.6,block=129", *codec);
            network_step(&net, tlc_gossip_step(g));
            require_all_pulled(&net);
        }
        network_greet(&net);
        network_close(&net);
        cfg.reserve = NULL;
        network_open(&net, &cfg, kind, NULL);
        NODE_REFUSED(&net, 0, tlc_gossip_set_codec(net.node[0].g, TLC_ALL, "raw"), TLC_ERR_CAPACITY);
        network_close(&net);
    }
}

/* ---- turns ------------------------------------------------------------------------------------------------------- */

TEST(turns)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_message kept;
        network net;
        network_ring(&net, kind, 3, "qsgd", 0);
        tlc_gossip *g = net.node[0].g;
        network_greet(&net);
        network_move(&net, 1);
        for (uint32_t i = 1; i < 3; i++)
            require_status(push_node(&net, i), TLC_OK);
        NODE_REFUSED(&net, 0, pull_node(&net, 0), TLC_ERR_ORDER);
        require_told(&net, 0, TLC_ERR_ORDER, TLC_ERR_ORDER, 0, "node 0: pull was called before push in step 1");
        NODE_REFUSED(&net, 0, tlc_gossip_again(g, 1, &kept), TLC_ERR_ORDER);
        require_status(push_node(&net, 0), TLC_OK);
        for (size_t t = 0; t < NET_TENSORS; t++)
            require(!tlc_gossip_mean(g, t) && !tlc_gossip_model(g, t) == !net.tensors[t].n);
        NODE_REFUSED(&net, 0, tlc_gossip_hello(g, 1, &kept), TLC_ERR_ORDER);
        require_status(tlc_gossip_again(g, 1, &kept), TLC_OK);
        require(blob_same(kept, net.node[0].push));
        network_pull(&net);
        require_all_pulled(&net);
        NODE_REFUSED(&net, 0, pull_node(&net, 0), TLC_ERR_ORDER);
        require_told(&net, 0, TLC_ERR_ORDER, TLC_ERR_ORDER, 0, "node 0: pull was called before push in step 2");
        NODE_REFUSED(&net, 0, tlc_gossip_again(g, 2, &kept), TLC_ERR_ORDER);
        NODE_REFUSED(&net, 0, tlc_gossip_again(g, 0, &kept), TLC_ERR_PARAM);
        network_greet(&net);
        require(tlc_gossip_step(g) == 2);
        network_close(&net);
    }
}

/* Pushes of earlier steps are kept: at least 2. */
TEST(kept_pushes)
{
    enum { STEPS = 6 };

    FOR_EACH_GOSSIP(kind)
        for (uint32_t keep = 1; keep <= 4; keep++) {
            const uint64_t least = keep > 2 ? keep : 2;
            tlc_exchange_config cfg = network_config(kind, 2);
            tlc_message copies[STEPS + 1] = {{NULL, 0}}, kept;
            network net;
            cfg.keep = keep;
            network_open(&net, &cfg, kind, NULL);
            for (uint64_t step = 1; step <= STEPS; step++) {
                network_move(&net, step);
                network_push(&net);
                copies[step] = blob_copy(net.node[0].push);
                for (uint64_t s = step + 2; s-- > 0;) {
                    tlc_status status = tlc_gossip_again(net.node[0].g, s, &kept);
                    require_status(status, s > step ? TLC_ERR_ORDER : s && s + least > step ? TLC_OK : TLC_ERR_PARAM);
                    require(status || blob_same(kept, copies[s]));
                }
                network_pull(&net);
                require_all_pulled(&net);
            }
            for (uint64_t step = 1; step <= STEPS; step++)
                blob_free(&copies[step]);
            network_close(&net);
        }
}

TEST(null_arguments)
{
    tlc_message message = {NULL, 0};
    size_t written = 77;

    require_status(tlc_gossip_hello(NULL, 0, &message), TLC_ERR_PARAM);
    require_status(tlc_gossip_greet(NULL, &message), TLC_ERR_PARAM);
    require(!tlc_gossip_mean(NULL, 0) && !tlc_gossip_model(NULL, 0));
    require_status(tlc_gossip_push(NULL, NULL, &message), TLC_ERR_PARAM);
    require_status(tlc_gossip_pull(NULL, &message), TLC_ERR_PARAM);
    require_status(tlc_gossip_again(NULL, 1, &message), TLC_ERR_PARAM);
    require_status(tlc_gossip_lose(NULL, 0), TLC_ERR_PARAM);
    require(!tlc_gossip_lost(NULL, 0) && tlc_gossip_step(NULL) == 0 && tlc_gossip_state_size(NULL) == 0);
    require_status(tlc_gossip_join(NULL, 1, NULL), TLC_ERR_PARAM);
    require_status(tlc_gossip_outcome(NULL, &(tlc_outcome){.struct_size = sizeof(tlc_outcome)}), TLC_ERR_PARAM);
    require_status(tlc_gossip_stats(NULL, &(tlc_exchange_stats){.struct_size = sizeof(tlc_exchange_stats)}),
                   TLC_ERR_PARAM);
    require_status(tlc_gossip_state_save(NULL, &message, 1, &written), TLC_ERR_PARAM);
    require_status(tlc_gossip_state_load(NULL, &message, 1), TLC_ERR_PARAM);
    FOR_EACH_GOSSIP(kind) {
        const float *moved[NET_TENSORS];
        network net;
        network_ring(&net, kind, 3, "qsgd", 0);
        tlc_gossip *g = net.node[0].g;
        network_move(&net, 1);
        for (size_t t = 0; t < NET_TENSORS; t++)
            moved[t] = t == CONV ? NULL : net.start[t];
        require(!tlc_gossip_mean(g, NET_TENSORS) && !tlc_gossip_mean(g, TLC_ALL) && !tlc_gossip_mean(g, NONE));
        require(!tlc_gossip_model(g, NET_TENSORS) && !tlc_gossip_model(g, TLC_ALL) && !tlc_gossip_model(g, NONE));
        NODE_REFUSED(&net, 0, tlc_gossip_push(g, moved, &message), TLC_ERR_PARAM);
        moved[CONV] = net.start[CONV];
        moved[NONE] = NULL; /* it has no values */
        NODE_REFUSED(&net, 0, tlc_gossip_push(g, moved, NULL), TLC_ERR_PARAM);
        require_told(&net, 0, TLC_ERR_PARAM, TLC_ERR_PARAM, 0, "node 0: to_all is NULL");
        require(!tlc_gossip_lost(g, 2) && !tlc_gossip_lost(g, SIZE_MAX));
        NODE_REFUSED(&net, 0, tlc_gossip_join(g, (UINT64_C(1) << 62) + 1, NULL), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_outcome(g, NULL), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_outcome(g, &(tlc_outcome){.struct_size = 1}), TLC_ERR_PARAM);
        NODE_REFUSED(&net, 0, tlc_gossip_stats(g, NULL), TLC_ERR_PARAM);
        require_status(tlc_gossip_push(g, moved, &net.node[0].push), TLC_OK);
        network_close(&net);
    }
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

TEST(told)
{
    const uint64_t float_bytes = 2 * 4 * (5 + 48 + 131 + 3 + 4); /* to two neighbours */

    FOR_EACH_GOSSIP(kind) {
        uint64_t sent[NODES] = {0}, received[NODES] = {0};
        network net;
        network_ring(&net, kind, NODES, "qsgd", 0);
        require_told(&net, 0, TLC_OK, TLC_OK, TLC_NOBODY, "nothing is wrong");
        for (uint64_t step = 1; step <= 3; step++) {
            network_move(&net, step);
            for (uint32_t i = 0; i < NODES; i++) {
                require_status(push_node(&net, i), TLC_OK);
                require(node_outcome(&net, i).taken == NULL && node_outcome(&net, i).step == step);
                sent[i] += 2 * net.node[i].push.len;
            }
            network_pull(&net);
            require_all_pulled(&net);
            for (uint32_t i = 0; i < NODES; i++) {
                const tlc_exchange_stats s = node_stats(&net, i);
                const tlc_outcome o = node_outcome(&net, i);
                require(o.status == TLC_OK && o.cause == TLC_OK && o.step == step && o.rank == TLC_NOBODY);
                require(o.tensor == TLC_ALL && o.workers == NODES && o.unknown == 0 && o.missing == 0);
                for (uint32_t j = 0; j < NODES; j++) {
                    const int near = i == j || (i + 1) % NODES == j || (j + 1) % NODES == i;
                    require((o.taken[j / 8] >> j % 8 & 1) == near);
                    received[i] += near && i != j ? net.node[j].push.len : 0;
                }
                require(o.taken[NODES / 8] >> NODES % 8 == 0);
                require(s.steps == step && !s.failed && !s.late && !s.dropped && s.float_bytes == step * float_bytes);
                require(s.sent == sent[i] && s.received == received[i]);
            }
        }
        network_close(&net);
    }
}

/* The model is not written by others' messages, nor what the caller gives by any call. */
TEST(not_written)
{
    FOR_EACH_GOSSIP(kind) {
        network net;
        network_ring(&net, kind, 3, "qsgd", 0);
        network_move(&net, 1);
        tlc_message before = blob_copy((tlc_message){net.node[0].moved[WIDE], net.tensors[WIDE].n * sizeof(float)});
        float *start = floats(net.tensors[WIDE].n);
        memcpy(start, net.start[WIDE], before.len);
        network_push(&net);
        const float *model = tlc_gossip_model(net.node[0].g, WIDE);
        tlc_message after = blob_copy((tlc_message){model, before.len});
        network_pull(&net);
        require_all_pulled(&net);
        require(tlc_gossip_model(net.node[0].g, WIDE) == model && same(model, after.data, after.len));
        require(same(net.node[0].moved[WIDE], before.data, before.len) && same(start, net.start[WIDE], before.len));
        blob_free(&before);
        blob_free(&after);
        free(start);
        network_close(&net);
    }
}

/* The means, or the model, can be given as they are: then there was no local step. */
TEST(no_local_step)
{
    FOR_EACH_GOSSIP(kind)
        for (int model = 0; model < 2; model++) {
            network a, b;
            network_ring(&a, kind, 3, "qsgd", 0);
            network_ring(&b, kind, 3, "qsgd", 0);
            network_step(&a, 1);
            network_step(&b, 1);
            for (uint32_t i = 0; i < 3; i++) {
                const float *moved[NET_TENSORS];
                for (size_t t = 0; t < NET_TENSORS; t++) {
                    moved[t] = model ? tlc_gossip_model(a.node[i].g, t) : tlc_gossip_mean(a.node[i].g, t);
                    if (moved[t])
                        memcpy(b.node[i].moved[t], moved[t], b.tensors[t].n * sizeof(float));
                }
                require_status(tlc_gossip_push(a.node[i].g, moved, &a.node[i].push), TLC_OK);
                require_status(push_node(&b, i), TLC_OK);
            }
            network_pull(&a);
            network_pull(&b);
            require_all_pulled(&a);
            require_same_networks(&a, &b);
            network_close(&a);
            network_close(&b);
        }
}
