/* SPDX-License-Identifier: MIT
 *
 * message_bound of every object: no message that it gets is longer, whatever the codec, the dtype of the sender, and
 * what the message tells; and with raw it is hardly more than the longest. tlc_tensor_pointers.
 */
#include "../support/exchange_run.h"
#include "../support/gossip_run.h"

enum { WORKERS = 3 };

static size_t longest;

static size_t bound_of(member m)
{
    return m.rank     ? tlc_allreduce_message_bound(m.rank)
           : m.worker ? tlc_worker_message_bound(m.worker)
                      : tlc_server_message_bound(m.server);
}

static member receiver(const fleet *f, leg on, uint32_t to)
{
    return f->cfg.servers && on == TO_OWNER ? f->owner[to] : f->worker[to];
}

static tlc_message measure(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message)
{
    (void)from;
    require(message.len && message.len <= bound_of(receiver(f, on, to)));
    longest = message.len > longest ? message.len : longest;
    return message;
}

/* Steps with weights, and one with a gradient that is not finite. */
static void steps(fleet *f)
{
    const uint32_t bad = 0x7fc00000; /* a NaN */

    f->via = measure;
    for (uint32_t w = 0; w < f->workers; w++)
        f->weight[w] = 1.75 + w;
    fleet_step(f, 1);
    fleet_step(f, 2);
    fleet_gradients(f, 3);
    if (f->cfg.dtype == TLC_F32)
        memcpy(f->grad[TENSORS + 1], &bad, sizeof bad);
    fleet_push(f);
    fleet_reduce(f);
    fleet_pull(f);
}

TEST(no_message_is_longer)
{
    FOR_EACH_KIND(kind)
        FOR_EACH_CODEC(c)
            FOR_EACH_DTYPE(dtype) {
                tlc_exchange_config cfg = fleet_config(kind, WORKERS, large_tensors);
                fleet f;

                if (dtype != TLC_F32 && c->feedback)
                    continue;
                cfg.push = cfg.pull = c->text;
                cfg.dtype = dtype;
                at.codec = c->text;
                fleet_open(&f, &cfg, large_tensors, 0);
                steps(&f);
                fleet_close(&f);
            }
}

TEST(the_bound_of_raw_is_hardly_more)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, WORKERS, large_tensors);
        size_t most = 0;
        fleet f;

        cfg.push = cfg.pull = "raw";
        fleet_open(&f, &cfg, large_tensors, 0);
        longest = 0;
        steps(&f);
        for (uint32_t i = 0; i < WORKERS; i++)
            most = bound_of(f.worker[i]) > most ? bound_of(f.worker[i]) : most;
        require(most >= longest && most <= longest + 200);
        fleet_close(&f);
    }
}

/* All machines have the same bound, though their gradients have other dtypes, and codecs that are reserved count. */
TEST(the_bound_is_that_of_all_machines)
{
    FOR_EACH_KIND(kind) {
        tlc_exchange_config cfg = fleet_config(kind, WORKERS, large_tensors);
        fleet f, wide;
        member half = {NULL, NULL, NULL};

        cfg.push = cfg.pull = "3lc";
        fleet_open(&f, &cfg, large_tensors, 0);
        cfg.dtype = TLC_F16;
        require_status(fleet_make(&f, &cfg, 1, 0, &half), TLC_OK);
        require(bound_of(half) == bound_of(f.worker[1]));
        member_destroy(half);
        cfg.dtype = TLC_F32;
        cfg.reserve = "sbc;raw;topk:p=0.1";
        fleet_open(&wide, &cfg, large_tensors, 0);
        require(bound_of(wide.worker[1]) > 2 * bound_of(f.worker[1]));
        for (uint32_t i = 0; i < WORKERS; i++)
            require_status(member_set_codec(wide.worker[i], TLC_ALL, "raw"), TLC_OK);
        steps(&wide);
        fleet_close(&wide);
        fleet_close(&f);
    }
    require(!tlc_worker_message_bound(NULL) && !tlc_server_message_bound(NULL) && !tlc_allreduce_message_bound(NULL) &&
            !tlc_gossip_message_bound(NULL));
}

TEST(gossip_has_no_longer_messages)
{
    FOR_EACH_GOSSIP(kind)
        for (size_t c = 0; unbiased_codecs()[c]; c++) {
            const tlc_graph complete = {.struct_size = sizeof complete, .kind = TLC_GRAPH_COMPLETE, .nodes = 5};
            tlc_exchange_config cfg = network_config(kind, 5);
            network net;

            cfg.push = unbiased_codecs()[c];
            network_open(&net, &cfg, kind, &complete);
            network_hello(&net, 1);
            network_step(&net, 1);
            for (uint32_t i = 0; i < net.nodes; i++) {
                size_t bound = tlc_gossip_message_bound(net.node[i].g);
                require(bound == tlc_gossip_message_bound(net.node[0].g));
                require(net.node[i].push.len <= bound && net.node[i].hello.len <= bound);
                require(bound <= net.node[i].hello.len + 200 || bound <= net.node[i].push.len + 200 ||
                        strcmp(cfg.push, "raw") != 0);
            }
            network_close(&net);
        }
}

/* A node with few neighbours gets hellos of one that has many. */
TEST(gossip_counts_the_neighbours_of_others)
{
    enum { NODES = 33 };
    uint32_t hub[NODES - 1];
    double of_hub[NODES];
    const double of_leaf[] = {1.0 / NODES, 1 - 1.0 / NODES};
    const float *none[] = {NULL};
    tlc_exchange_config cfg = network_config(TLC_GOSSIP_DCD, NODES);
    const tlc_tensor empty = {.struct_size = sizeof empty, .name = "empty", .only = TLC_NOBODY};
    tlc_gossip *center, *edge;
    tlc_message hello;

    for (uint32_t i = 0; i < NODES; i++) {
        of_hub[i] = 1.0 / NODES;
        if (i)
            hub[i - 1] = i;
    }
    require_status(tlc_gossip_create(&center, &cfg, TLC_GOSSIP_DCD, 0, hub, of_hub, COUNT(hub), &empty, 1, none),
                   TLC_OK);
    require_status(tlc_gossip_create(&edge, &cfg, TLC_GOSSIP_DCD, 1, (uint32_t[]){0}, of_leaf, 1, &empty, 1, none),
                   TLC_OK);
    require_status(tlc_gossip_hello(center, 1, &hello), TLC_OK);
    require(hello.len <= tlc_gossip_message_bound(edge));
    tlc_gossip_destroy(center);
    tlc_gossip_destroy(edge);
}

/* ---- pointers ---------------------------------------------------------------------------------------------------- */

TEST(pointers_are_where_tensors_begin)
{
    tlc_tensor tensors[3];
    unsigned char buffer[4 * 12];
    void *p[3];

    for (int i = 0; i < 3; i++)
        require_status(tlc_tensor_init(&tensors[i], sizeof tensors[i]), TLC_OK);
    tensors[0].n = 5;
    tensors[2].n = 7;
    require_status(tlc_tensor_pointers(buffer, TLC_F32, tensors, 3, p), TLC_OK);
    require(p[0] == buffer && p[1] == buffer + 20 && p[2] == buffer + 20);
    require_status(tlc_tensor_pointers(buffer + 1, TLC_BF16, tensors, 3, p), TLC_OK);
    require(p[0] == buffer + 1 && p[1] == buffer + 11 && p[2] == buffer + 11);
    require_status(tlc_tensor_pointers(NULL, TLC_F32, NULL, 0, NULL), TLC_OK);
    require_status(tlc_tensor_pointers(NULL, TLC_F32, tensors + 1, 1, p), TLC_OK);
    require(!p[0]);
}

TEST(pointers_that_are_refused_do_not_change)
{
    tlc_tensor tensors[2];
    float buffer[9];
    void *p[2] = {buffer, buffer + 1};

    for (int i = 0; i < 2; i++)
        require_status(tlc_tensor_init(&tensors[i], sizeof tensors[i]), TLC_OK);
    tensors[0].n = 3;
    require_status(tlc_tensor_pointers(NULL, TLC_F32, tensors, 2, p), TLC_ERR_PARAM);
    require_status(tlc_tensor_pointers(buffer, (tlc_dtype)99, tensors, 2, p), TLC_ERR_PARAM);
    require_status(tlc_tensor_pointers(buffer, TLC_F32, NULL, 2, p), TLC_ERR_PARAM);
    require_status(tlc_tensor_pointers(buffer, TLC_F32, tensors, 2, NULL), TLC_ERR_PARAM);
    tensors[0].struct_size = sizeof(size_t);
    require_status(tlc_tensor_pointers(buffer, TLC_F32, tensors, 2, p), TLC_ERR_PARAM);
    tensors[0].struct_size = sizeof *tensors;
    for (size_t n = SIZE_MAX; n >= SIZE_MAX / 8; n /= 2) {
        tensors[1].n = n;
        require_status(tlc_tensor_pointers(buffer, TLC_F32, tensors, 2, p), TLC_ERR_SIZE);
    }
    require(p[0] == buffer && p[1] == buffer + 1);
}
