/* SPDX-License-Identifier: MIT
 *
 * E5 of gossip: only `_create` allocates. If one of its allocations fails it returns TLC_ERR_NOMEM and frees the
 * others. All other functions work when there is no memory at all, with tlc_exchange_config.alloc and without.
 */
#include "../support/gossip_run.h"
#include "../support/no_memory.h"
#include <math.h>

enum { NODES = 4 };

/* ---- every function ---------------------------------------------------------------------------------------------- */

#define OK(net, call) STATUS(net, call, TLC_OK)
#define STATUS(net, call, want)                                                                                        \
    do {                                                                                                               \
        tlc_status got_;                                                                                               \
        NETWORK_CALL(net, got_ = (call));                                                                              \
        require_status_is(#call, got_, want, __FILE__, __LINE__);                                                      \
    } while (0)

static void use_node(network *net, uint32_t i)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};
    tlc_outcome outcome = {.struct_size = sizeof outcome};
    tlc_gossip *g = net->node[i].g;
    size_t size, written;
    tlc_message kept;

    NETWORK_CALL(net, size = tlc_gossip_state_size(g));
    uint8_t *state = bytes(size);
    const tlc_message saved[2] = {{state, size}, {state, size}};
    OK(net, tlc_gossip_state_save(g, state, size, &written));
    STATUS(net, tlc_gossip_state_save(g, state, size - 1, &written), TLC_ERR_CAPACITY);
    OK(net, tlc_gossip_again(g, tlc_gossip_step(g) - 1, &kept));
    OK(net, tlc_gossip_state_load(g, saved, 1));
    STATUS(net, tlc_gossip_state_load(g, saved, 2), TLC_ERR_PARAM);
    OK(net, tlc_gossip_set_codec(g, CONV, "random-sparse"));
    STATUS(net, tlc_gossip_set_codec(g, CONV, "sbc"), TLC_ERR_PARAM);
    OK(net, tlc_gossip_stats(g, &stats));
    OK(net, tlc_gossip_outcome(g, &outcome));
    OK(net, tlc_gossip_lose(g, 0));
    NETWORK_CALL(net, (void)tlc_gossip_lost(g, 0));
    NETWORK_CALL(net, (void)tlc_gossip_step(g));
    NETWORK_CALL(net, (void)tlc_gossip_model(g, 0));
    OK(net, tlc_gossip_hello(g, 0, &net->node[i].hello));
    OK(net, tlc_gossip_hello(g, 1, &net->node[i].hello));
    free(state);
}

/* The states of all, in all. */
static void merge(network *net)
{
    tlc_message states[NODES];

    for (uint32_t i = 0; i < NODES; i++) {
        size_t size = tlc_gossip_state_size(net->node[i].g), written;
        uint8_t *state = bytes(size);
        OK(net, tlc_gossip_state_save(net->node[i].g, state, size, &written));
        states[i] = (tlc_message){state, size};
    }
    for (uint32_t i = 0; i < NODES; i++)
        OK(net, tlc_gossip_state_load(net->node[i].g, states, NODES));
    for (uint32_t i = 0; i < NODES; i++)
        blob_free(&states[i]);
}

/* All calls, also those that find faults. */
static void use(network *net)
{
    const float bad = NAN;

    network_greet(net);
    network_step(net, 1);
    require_all_pulled(net);
    for (uint32_t i = 0; i < NODES; i++)
        use_node(net, i);
    for (uint32_t i = 0; i < NODES; i++)
        require_status(greet_node(net, i), TLC_OK);
    network_move(net, 2);
    memcpy(net->node[1].moved[WIDE], &bad, sizeof bad);
    network_push(net);
    STATUS(net, push_node(net, 0), TLC_ERR_ORDER);
    const tlc_message push = net->node[1].push;
    net->node[1].push.len--;
    require_status(pull_node(net, 0), TLC_ERR_CHECKSUM);
    net->node[1].push = push;
    network_pull(net);
    require_all_pulled(net);
    merge(net);
    network_greet(net);
    OK(net, tlc_gossip_join(net->node[0].g, 9, (const float *const *)net->start));
    OK(net, tlc_gossip_join(net->node[0].g, 3, NULL));
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

static tlc_exchange_config configuration(tlc_gossip_kind kind, const char *codec)
{
    tlc_exchange_config cfg = network_config(kind, NODES);

    cfg.push = at.codec = codec;
    cfg.reserve = reserve_unbiased();
    return cfg;
}

TEST(allocator)
{
    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++) {
            counter count = {.left = SIZE_MAX};
            tlc_exchange_config cfg = configuration(kind, *codec);
            network net;
            cfg.alloc = (tlc_allocator){counted_alloc, counted_free, &count};
            network_open(&net, &cfg, kind, NULL);
            size_t made = count.made;
            count.left = 0;
            use(&net);
            require(count.made == made && count.freed == 0);
            network_close(&net);
            require(count.made == made && count.freed == made);
        }
}

static void alone(network *net, int before)
{
    (void)net;
    if (before) {
        starve(0);
        return;
    }
    feed();
    require(memory.asked == 0);
}

TEST(every_call)
{
    size_t turn = 0;

    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++, turn++) {
            tlc_exchange_config cfg = configuration(kind, *codec);
            network net;
            cfg.parallel = starved_runner(&runners[turn % runner_count]);
            network_open(&net, &cfg, kind, NULL);
            net.around = alone;
            use(&net);
            network_close(&net);
        }
}

/* A large tensor, so that there are tasks. */
TEST(tasks)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = configuration(kind, "qsgd");
        network net;
        cfg.parallel = starved_runner(&runners[1 + (size_t)kind % (runner_count - 1)]);
        network_open_with(&net, &cfg, kind, NULL, 140000, NULL);
        net.around = alone;
        most_tasks = 0;
        use(&net);
        require(most_tasks > 1);
        network_close(&net);
    }
}

TEST(graphs)
{
    uint32_t list[12];
    double weights[13];
    size_t degree;

    for (tlc_graph_kind kind = TLC_GRAPH_RING; kind <= TLC_GRAPH_RANDOM; kind++) {
        const tlc_graph g = {.struct_size = sizeof g, .kind = kind, .nodes = 12, .p = 0.5};
        starved(tlc_graph_neighbours(&g, 3, list, weights, 12, &degree), TLC_OK);
    }
}

/* ---- create ------------------------------------------------------------------------------------------------------ */

typedef enum memory_kind { MALLOC, ALLOCATOR, ALLOCATOR_ONCE, MEMORY_KINDS } memory_kind;

/* A node, of which `left` allocations succeed and then no more, or all but one. Returns the status. */
static tlc_status try_to_make(network *net, const tlc_exchange_config *cfg, size_t left, memory_kind kind)
{
    int theirs = kind != MALLOC;
    counter count = {.left = left, .once = kind == ALLOCATOR_ONCE, .starved = theirs};
    tlc_exchange_config with = *cfg;
    tlc_gossip *const other = (tlc_gossip *)(void *)&count, *g = other;
    tlc_status status;

    if (theirs)
        with.alloc = (tlc_allocator){counted_alloc, counted_free, &count};
    starve(theirs ? 0 : left);
    status = network_make(net, &with, 0, &g);
    feed();
    require(!theirs || memory.asked == 0);
    require(status || !(theirs ? count.refused : memory.asked > left)); /* it has all that it asked for */
    require((g == other) == (status != TLC_OK));
    starve(0);
    tlc_gossip_destroy(status ? NULL : g);
    feed();
    require(count.made == count.freed && memory.live == 0);
    return status;
}

/* The k-th allocation fails, for k = 1, 2, ... until the object is made. */
TEST(no_memory)
{
    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec++)
            for (memory_kind way = MALLOC; way < MEMORY_KINDS; way++) {
                tlc_exchange_config cfg = configuration(kind, *codec);
                tlc_status status = TLC_ERR_NOMEM;
                network net;
                size_t k;
                network_open(&net, &cfg, kind, NULL);
                for (k = 0; status; k++) {
                    at.i = k;
                    status = try_to_make(&net, &cfg, k, way);
                    require(status == TLC_OK || status == TLC_ERR_NOMEM);
                }
                require(k > 5);
                network_close(&net);
            }
}

/* What is refused frees all that was taken by then. */
TEST(refused)
{
    FOR_EACH_GOSSIP(kind)
        for (memory_kind way = MALLOC; way <= ALLOCATOR; way++) {
            tlc_exchange_config cfg = configuration(kind, "qsgd");
            network net;
            network_open(&net, &cfg, kind, NULL);
            tlc_tensor *last = &net.tensors[NET_TENSORS - 1], good = *last;
            last->push = "int8";
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_ERR_PARAM);
            *last = good;
            last->name = net.tensors[0].name;
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_ERR_PARAM);
            *last = good;
            last->n = SIZE_MAX / 2;
            last->push = "raw"; /* four bytes each */
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_ERR_SIZE);
            *last = good;
            net.node[0].weights[0] *= 2;
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_ERR_PARAM);
            net.node[0].weights[0] /= 2;
            const float value = net.start[CONV][3];
            net.start[CONV][3] = NAN;
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_ERR_NONFINITE);
            net.start[CONV][3] = value;
            cfg.reserve = "qsgd;;";
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_ERR_PARAM);
            cfg.reserve = NULL;
            require_status(try_to_make(&net, &cfg, SIZE_MAX, way), TLC_OK);
            network_close(&net);
        }
}
