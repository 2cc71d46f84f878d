/* SPDX-License-Identifier: MIT
 *
 * E7 of gossip: messages, models and states are the same bytes for any tlc_parallel, any ISA and any float mode of the
 * caller, which no call changes. A digest of all of them is the same on every machine.
 */
#include "../support/float_modes.h"
#include "../support/gossip_run.h"
#include <inttypes.h>
#include <math.h>
#include <xxhash.h>

enum { NODES = 4, STEPS = 6 };

/* Of fixed runs with all codecs without bias, by kind. The test prints them. They change with the lines CODEC of
 * codecs.def. */
static const uint64_t digests[] = {0xe94c652a0c2d982b, 0x63154bc156ebbbb2};

/* How a run is made. The results may not depend on it. */
typedef struct way {
    tlc_isa isa;
    const runner *runner;
    float_mode mode;
} way;

static const way plain = {TLC_ISA_SCALAR, &runners[0], MODE_DEFAULT};

/* ---- digests ----------------------------------------------------------------------------------------------------- */

static void fold(uint64_t *digest, tlc_message m)
{
    *digest = XXH3_64bits_withSeed(m.data, m.len, *digest);
}

static void fold_values(uint64_t *digest, const float *values, size_t n)
{
    uint8_t *p = bytes(4 * n);

    for (size_t i = 0; i < 4 * n; i++)
        p[i] = (uint8_t)(float_bits(values[i / 4]) >> i % 4 * 8);
    fold(digest, (tlc_message){p, 4 * n});
    free(p);
}

static void fold_state(uint64_t *digest, const network *net, uint32_t i)
{
    tlc_message state = node_save(net, i);

    fold(digest, state);
    blob_free(&state);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static float_mode mode_now;

static void in_mode(network *net, int before)
{
    (void)net;
    require(mode_around(mode_now, before));
}

#define OK(net, call)                                                                                                  \
    do {                                                                                                               \
        tlc_status status_;                                                                                            \
        NETWORK_CALL(net, status_ = (call));                                                                           \
        require_status_is(#call, status_, TLC_OK, __FILE__, __LINE__);                                                 \
    } while (0)

/* Subnormal values, and values that are rounded. */
static void spoil(network *net, uint32_t i, uint64_t step)
{
    const float tiny = 0x1.8p-140f, bad = NAN;

    memcpy(net->node[i].moved[CONV] + 4 * i, &tiny, sizeof tiny);
    if (step == 3 && i == 1)
        memcpy(net->node[i].moved[WIDE], &bad, sizeof bad);
}

static void greet_all(uint64_t *digest, network *net, int full)
{
    for (uint32_t i = 0; i < net->nodes; i++) {
        OK(net, tlc_gossip_hello(net->node[i].g, full, &net->node[i].hello));
        fold(digest, net->node[i].hello);
    }
    for (uint32_t i = 0; i < net->nodes; i++)
        require_status(greet_node(net, i), TLC_OK);
}

/* Node 0 is new, and joins. Then all take over the states of all. */
static void between(uint64_t *digest, network *net)
{
    tlc_message *states = malloc(net->nodes * sizeof *states);

    require(states != NULL);
    OK(net, tlc_gossip_lose(net->node[1].g, 0));
    OK(net, tlc_gossip_join(net->node[0].g, tlc_gossip_step(net->node[1].g), network_start(net)));
    greet_all(digest, net, 1);
    for (uint32_t i = 0; i < net->nodes; i++)
        states[i] = node_save(net, i);
    for (uint32_t i = 1; i < net->nodes; i++)
        OK(net, tlc_gossip_state_load(net->node[i].g, states, net->nodes));
    OK(net, tlc_gossip_state_load(net->node[0].g, states, 1));
    fold_state(digest, net, 0);
    OK(net, tlc_gossip_state_load(net->node[0].g, states, net->nodes));
    for (uint32_t i = 0; i < net->nodes; i++)
        blob_free(&states[i]);
    free(states);
    greet_all(digest, net, 0);
}

/* wide: values of the largest tensor. */
static uint64_t run(tlc_gossip_kind kind, const char *codec, size_t wide, const way *how)
{
    tlc_exchange_config cfg = network_config(kind, NODES);
    tlc_graph graph = ring_of(NODES);
    uint64_t digest = 0;
    network net = {.nodes = 0};

    at.codec = codec;
    at.isa = how->isa;
    at.n = (size_t)how->mode;
    cfg.push = codec;
    cfg.seed = 7;
    cfg.isa = how->isa;
    cfg.parallel = how->runner->parallel;
    graph.kind = TLC_GRAPH_COMPLETE;
    mode_now = how->mode;
    network_open_with(&net, &cfg, kind, &graph, wide, in_mode);
    for (uint64_t step = 1; step <= STEPS; step++) {
        at.i = (size_t)step;
        network_move(&net, step);
        for (uint32_t i = 0; i < NODES; i++)
            spoil(&net, i, step);
        network_push(&net);
        network_pull(&net);
        require_all_pulled(&net);
        for (uint32_t i = 0; i < NODES; i++) {
            fold(&digest, net.node[i].push);
            for (size_t t = 0; t < NET_TENSORS; t++)
                fold_values(&digest, tlc_gossip_model(net.node[i].g, t), net.tensors[t].n);
        }
        if (step == 4)
            between(&digest, &net);
    }
    for (uint32_t i = 0; i < NODES; i++)
        fold_state(&digest, &net, i);
    network_close(&net);
    return digest;
}

/* ---- the tests --------------------------------------------------------------------------------------------------- */

TEST(same_digests)
{
    int right = 1;

    FOR_EACH_GOSSIP(kind) {
        uint64_t digest = 0;
        for (const char *const *codec = unbiased_codecs(); *codec; codec++)
            digest = digest * UINT64_C(0x9e3779b97f4a7c15) ^ run(kind, *codec, 131, &plain);
        print_message("# %s: 0x%016" PRIx64 "\n", at.note, digest);
        right &= digest == digests[kind];
    }
    require(right);
}

/* All ISAs in all float modes. */
TEST(ways)
{
    size_t turn = 0;

    FOR_EACH_GOSSIP(kind)
        for (const char *const *codec = unbiased_codecs(); *codec; codec += quick() && codec[1] && codec[2] ? 3 : 1) {
            const uint64_t want = run(kind, *codec, 131, &plain);
            FOR_EACH_ISA(isa)
                for (float_mode mode = MODE_DEFAULT; mode < MODE_COUNT; mode++, turn++) {
                    const way how = {isa, &runners[turn % runner_count], mode};
                    require(!has_mode(mode) || run(kind, *codec, 131, &how) == want);
                }
        }
}

/* A tensor that is so large that tasks share it. */
TEST(tasks)
{
    static const char *const texts[] = {"qsgd", "raw", "natural", "random-sparse", "stochastic-ternary+quartic"};

    FOR_EACH_GOSSIP(kind)
        for (size_t c = 0; c < COUNT(texts) && !(quick() && kind); c += quick() ? COUNT(texts) : 1) {
            const uint64_t want = run(kind, texts[c], 140000, &plain);
            const way how = {TLC_ISA_AUTO, &runners[1 + c % (runner_count - 1)], MODE_DEFAULT};
            most_tasks = 0;
            require(run(kind, texts[c], 140000, &how) == want);
            require(most_tasks > 1);
        }
}

/* A full hello is made by tasks, too. */
TEST(tasks_of_hellos)
{
    FOR_EACH_GOSSIP(kind) {
        tlc_exchange_config cfg = network_config(kind, 2);
        network net = {.nodes = 0};
        cfg.parallel = runners[1].parallel;
        network_open_with(&net, &cfg, kind, NULL, 40000, NULL);
        most_tasks = 0;
        network_hello(&net, 1);
        require(most_tasks > 1);
        network_close(&net);
    }
}

/* tlc_graph_neighbours computes weights, and compares p. */
TEST(graphs)
{
    for (tlc_graph_kind kind = TLC_GRAPH_RING; kind <= TLC_GRAPH_RANDOM; kind++)
        for (float_mode mode = MODE_DEFAULT; mode < MODE_COUNT; mode++)
            for (uint32_t i = 0; i < 30; i++) {
                tlc_graph g = {.struct_size = sizeof g, .kind = kind, .nodes = 30, .p = 0.3, .seed = 4};
                uint32_t want[30] = {0}, got[30] = {0};
                double want_weights[31] = {0}, got_weights[31] = {0};
                size_t want_degree, got_degree;
                require_status(tlc_graph_neighbours(&g, i, want, want_weights, 30, &want_degree), TLC_OK);
                if (!has_mode(mode))
                    continue;
                (void)mode_enter(mode);
                const uint64_t was = mode_read();
                const tlc_status status = tlc_graph_neighbours(&g, i, got, got_weights, 30, &got_degree);
                const uint64_t is = mode_read();
                mode_leave();
                require(status == TLC_OK && was == is && got_degree == want_degree && same(got, want, sizeof want));
                require(same(got_weights, want_weights, sizeof want_weights));
            }
}

SETUP(print_isas)
