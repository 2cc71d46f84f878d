/* SPDX-License-Identifier: MIT */
#include "gossip_run.h"

#define TENSOR(...) {.struct_size = sizeof(tlc_tensor), .only = TLC_NOBODY, __VA_ARGS__}

const tlc_tensor net_tensors[NET_TENSORS] = {
    TENSOR(.name = "bias", .n = 5),
    TENSOR(.name = "conv", .n = 48),
    TENSOR(.name = "none", .n = 0),
    TENSOR(.name = "wide", .n = 131),
    TENSOR(.name = "own", .n = 3, .push = "qsgd:bits=4"),
    TENSOR(.name = "gain", .n = 4),
};

/* ---- codecs ------------------------------------------------------------------------------------------------------ */

static int is_unbiased(const char *text)
{
    static const char *const stages[] = {"qsgd", "random-sparse", "natural", "stochastic-ternary", "raw"};

    for (size_t i = 0; i < COUNT(stages); i++)
        if (!strncmp(text, stages[i], strlen(stages[i])) && !strstr(text, "rounding=nearest"))
            return 1;
    return 0;
}

const char *const *unbiased_codecs(void)
{
    static const char *list[64];
    size_t count = 0;

    if (!list[0])
        FOR_EACH_CODEC(c)
            if (is_unbiased(c->text) && count + 1 < COUNT(list))
                list[count++] = c->text;
    return list;
}

const char *reserve_unbiased(void)
{
    static char text[2048];

    for (size_t i = 0; !*text && unbiased_codecs()[i];)
        for (; unbiased_codecs()[i]; i++) {
            require(strlen(text) + strlen(unbiased_codecs()[i]) + 2 <= sizeof text);
            strcat(strcat(text, i ? ";" : ""), unbiased_codecs()[i]);
        }
    return text;
}

/* ---- make -------------------------------------------------------------------------------------------------------- */

tlc_exchange_config network_config(tlc_gossip_kind kind, uint32_t nodes)
{
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = nodes;
    cfg.push = "qsgd";
    cfg.min_n = 8;
    at = (place){.note = kind == TLC_GOSSIP_DCD ? "DCD" : "ECD", .n = nodes};
    return cfg;
}

tlc_graph ring_of(uint32_t nodes)
{
    return (tlc_graph){.struct_size = sizeof(tlc_graph), .kind = TLC_GRAPH_RING, .nodes = nodes};
}

static void *zeros(size_t count, size_t size)
{
    return memset(bytes(count * size), 0, count * size);
}

const float *const *network_start(network *net)
{
    for (size_t t = 0; t < NET_TENSORS; t++)
        memcpy(net->unaligned[t], net->start[t], net->start_size[t]);
    return (const float *const *)net->unaligned;
}

tlc_status network_make(network *net, const tlc_exchange_config *cfg, uint32_t i, tlc_gossip **g)
{
    const node *n = &net->node[i];
    const float *const *start = network_start(net);
    tlc_status status;

    NETWORK_CALL(net, status = tlc_gossip_create(g, cfg, net->kind, i, n->neighbours, n->weights, n->degree,
                                                 net->tensors, NET_TENSORS, start));
    return status;
}

static void make_node(network *net, const tlc_graph *graph, uint32_t i)
{
    node *n = &net->node[i];

    n->neighbours = zeros(net->nodes, sizeof *n->neighbours);
    n->weights = zeros(net->nodes, sizeof *n->weights);
    require_status(tlc_graph_neighbours(graph, i, n->neighbours, n->weights, net->nodes, &n->degree), TLC_OK);
    for (size_t t = 0; t < NET_TENSORS; t++) {
        const size_t size = net->tensors[t].n * sizeof(float) + 4;
        n->moved[t] = (uint8_t *)memset(bytes(size), 0, size) + (i + t) % 4;
    }
    require_status(network_make(net, &net->cfg, i, &n->g), TLC_OK);
}

void network_open(network *net, const tlc_exchange_config *cfg, tlc_gossip_kind kind, const tlc_graph *graph)
{
    network_open_with(net, cfg, kind, graph, net_tensors[WIDE].n, NULL);
}

void network_open_with(network *net, const tlc_exchange_config *cfg, tlc_gossip_kind kind, const tlc_graph *graph,
                       size_t wide, void (*around)(network *net, int before))
{
    const tlc_graph ring = ring_of(cfg->workers);

    *net = (network){.cfg = *cfg, .kind = kind, .nodes = cfg->workers, .around = around};
    memcpy(net->tensors, net_tensors, sizeof net->tensors);
    net->tensors[WIDE].n = wide;
    for (size_t t = 0; t < NET_TENSORS; t++) {
        net->start[t] = floats(net->tensors[t].n);
        net->start_size[t] = net->tensors[t].n * sizeof(float);
        net->unaligned[t] = bytes(net->start_size[t] + 4) + (t + 1) % 4;
        gradient(t + 1, TLC_F32, net->start[t], net->tensors[t].n);
    }
    net->node = zeros(net->nodes, sizeof *net->node);
    for (uint32_t i = 0; i < net->nodes; i++)
        make_node(net, graph ? graph : &ring, i);
}

void network_ring(network *net, tlc_gossip_kind kind, uint32_t nodes, const char *codec, uint64_t steps)
{
    tlc_exchange_config cfg = network_config(kind, nodes);

    cfg.push = at.codec = codec;
    network_open(net, &cfg, kind, NULL);
    for (uint64_t step = 1; step <= steps; step++) {
        network_step(net, step);
        require_all_pulled(net);
    }
}

void network_close(network *net)
{
    for (uint32_t i = 0; i < net->nodes; i++) {
        node *n = &net->node[i];
        tlc_gossip_destroy(n->g);
        free(n->neighbours);
        free(n->weights);
        for (size_t t = 0; t < NET_TENSORS; t++)
            free(n->moved[t] - (i + t) % 4);
    }
    for (size_t t = 0; t < NET_TENSORS; t++) {
        free(net->start[t]);
        free(net->unaligned[t] - (t + 1) % 4);
    }
    free(net->node);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

void move_node(network *net, uint32_t i, uint64_t seed)
{
    for (size_t t = 0; t < NET_TENSORS; t++) {
        const size_t n = net->tensors[t].n;
        const float *mean;
        float *moved = floats(n);
        NETWORK_CALL(net, mean = tlc_gossip_mean(net->node[i].g, t));
        gradient(seed * 1000 + i * NET_TENSORS + t, TLC_F32, moved, n);
        for (size_t k = 0; k < n; k++)
            moved[k] = mean[k] + 0.25f * moved[k];
        if (n)
            memcpy(net->node[i].moved[t], moved, n * sizeof *moved);
        free(moved);
    }
}

void network_move(network *net, uint64_t seed)
{
    for (uint32_t i = 0; i < net->nodes; i++)
        move_node(net, i, seed);
}

float moved_value(const network *net, uint32_t i, size_t t, size_t k)
{
    return bits_float(widened(TLC_F32, net->node[i].moved[t], k));
}

tlc_status push_node(network *net, uint32_t i)
{
    node *n = &net->node[i];
    const float *moved[NET_TENSORS];
    tlc_status status;

    for (size_t t = 0; t < NET_TENSORS; t++)
        moved[t] = (const float *)(const void *)n->moved[t];
    NETWORK_CALL(net, status = tlc_gossip_push(n->g, moved, &n->push));
    return status;
}

/* Gives messages of all neighbours to a call: pushes, or hellos. */
static tlc_status deliver(network *net, uint32_t i, int hello, tlc_status (*call)(tlc_gossip *, const tlc_message *))
{
    const node *n = &net->node[i];
    tlc_message *from = zeros(n->degree, sizeof *from);
    tlc_status status;

    for (size_t k = 0; k < n->degree; k++) {
        const node *other = &net->node[n->neighbours[k]];
        const tlc_message message = hello ? other->hello : other->push;
        from[k] = net->via ? net->via(net, n->neighbours[k], i, message) : message;
    }
    NETWORK_CALL(net, status = call(n->g, from));
    free(from);
    return status;
}

tlc_status pull_node(network *net, uint32_t i)
{
    return net->node[i].pulled = deliver(net, i, 0, tlc_gossip_pull);
}

tlc_status greet_node(network *net, uint32_t i)
{
    return deliver(net, i, 1, tlc_gossip_greet);
}

void network_push(network *net)
{
    for (uint32_t i = 0; i < net->nodes; i++)
        require_status(push_node(net, i), TLC_OK);
}

void network_pull(network *net)
{
    for (uint32_t i = 0; i < net->nodes; i++)
        (void)pull_node(net, i);
}

void require_all_pulled(const network *net)
{
    for (uint32_t i = 0; i < net->nodes; i++)
        require_status(net->node[i].pulled, TLC_OK);
}

void network_step(network *net, uint64_t seed)
{
    network_move(net, seed);
    network_push(net);
    network_pull(net);
}

void network_hello(network *net, int full)
{
    for (uint32_t i = 0; i < net->nodes; i++) {
        tlc_status status;
        NETWORK_CALL(net, status = tlc_gossip_hello(net->node[i].g, full, &net->node[i].hello));
        require_status(status, TLC_OK);
    }
}

void network_greet(network *net)
{
    network_hello(net, 0);
    for (uint32_t i = 0; i < net->nodes; i++)
        require_status(greet_node(net, i), TLC_OK);
}

static tlc_message forged;

static tlc_message forge(network *net, uint32_t from, uint32_t to, tlc_message message)
{
    (void)net;
    (void)to;
    return from == 1 ? forged : message;
}

tlc_status take_forged(network *net, taking *take, tlc_message message)
{
    tlc_status status;

    forged = message;
    net->via = forge;
    status = take(net, 0);
    net->via = NULL;
    return status;
}

size_t edge_of(const network *net, uint32_t i, uint32_t other)
{
    for (size_t k = 0; k < net->node[i].degree; k++)
        if (net->node[i].neighbours[k] == other)
            return k;
    require_failed("they are neighbours", __FILE__, __LINE__);
}

/* ---- one node ---------------------------------------------------------------------------------------------------- */

tlc_message node_save(const network *net, uint32_t i)
{
    const tlc_gossip *g = net->node[i].g;
    size_t size = tlc_gossip_state_size(g), written = 0;
    uint8_t *state = bytes(size);

    require_status(tlc_gossip_state_save(g, state, size, &written), TLC_OK);
    require(written == size);
    return (tlc_message){state, size};
}

tlc_status node_load(const network *net, uint32_t i, tlc_message state)
{
    return tlc_gossip_state_load(net->node[i].g, &state, 1);
}

tlc_outcome node_outcome(const network *net, uint32_t i)
{
    tlc_outcome o = {.struct_size = sizeof o};

    require_status(tlc_gossip_outcome(net->node[i].g, &o), TLC_OK);
    require_outcome_form(&o);
    return o;
}

tlc_exchange_stats node_stats(const network *net, uint32_t i)
{
    tlc_exchange_stats stats = {.struct_size = sizeof stats};

    require_status(tlc_gossip_stats(net->node[i].g, &stats), TLC_OK);
    return stats;
}

void require_told(const network *net, uint32_t i, tlc_status status, tlc_status cause, uint32_t rank,
                  const char *sentence)
{
    const tlc_outcome o = node_outcome(net, i);

    require_status(o.status, status);
    require_status(o.cause, cause);
    if (o.rank != rank || strcmp(o.sentence, sentence) != 0)
        fail_msg("node %u says of node %u: \"%s\" instead of node %u: \"%s\"", i, o.rank, o.sentence, rank, sentence);
}

static void add_state(growing *look, const tlc_gossip *g)
{
    size_t size = tlc_gossip_state_size(g), written = 0;
    uint8_t *state = bytes(size);

    add_number(look, (uint64_t)tlc_gossip_state_save(g, state, size, &written));
    add_bytes(look, state, written);
    free(state);
}

/* Messages that can be fetched again. */
static void add_kept(growing *look, const tlc_gossip *g)
{
    for (uint64_t back = 0, step = tlc_gossip_step(g); back < 6 && back < step; back++) {
        tlc_message kept = {NULL, 0};
        add_number(look, (uint64_t)tlc_gossip_again(g, step - back, &kept));
        add_bytes(look, kept.data, kept.len);
    }
}

tlc_message node_look(network *net, uint32_t i)
{
    const tlc_exchange_stats s = node_stats(net, i);
    const uint64_t numbers[] = {s.steps, s.failed, s.late, s.float_bytes, s.sent, s.received, s.dropped};
    const node *n = &net->node[i];
    growing look = {NULL, 0, 0};

    add_number(&look, tlc_gossip_step(n->g));
    add_bytes(&look, numbers, sizeof numbers);
    for (size_t k = 0; k < n->degree; k++)
        add_number(&look, (uint64_t)tlc_gossip_lost(n->g, k));
    for (size_t t = 0; t < NET_TENSORS; t++) {
        const size_t size = net->tensors[t].n * sizeof(float);
        const float *mean = tlc_gossip_mean(n->g, t);
        add_bytes(&look, mean, mean ? size : 0);
        add_bytes(&look, tlc_gossip_model(n->g, t), size);
        add_bytes(&look, n->moved[t], size);
    }
    add_state(&look, n->g);
    add_kept(&look, n->g);
    return (tlc_message){look.p, look.len};
}

void require_refused(network *net, taking *take, tlc_message message, tlc_status want)
{
    NODE_REFUSED(net, 0, take_forged(net, take, message), want);
    const tlc_outcome o = node_outcome(net, 0);
    require(o.status == want && o.cause == want && o.rank == 1);
}

void require_same_networks(const network *a, const network *b)
{
    require(a->nodes == b->nodes);
    for (uint32_t i = 0; i < a->nodes; i++) {
        tlc_message one = node_save(a, i), other = node_save(b, i);
        require(blob_same(one, other));
        blob_free(&one);
        blob_free(&other);
    }
}

uint8_t *find_number(tlc_message m, uint64_t number)
{
    uint8_t *p = (uint8_t *)(uintptr_t)m.data;

    for (size_t i = 0; i + 8 <= m.len; i++) {
        uint64_t here = 0;
        for (size_t b = 0; b < 8; b++)
            here |= (uint64_t)p[i + b] << 8 * b;
        if (here == number)
            return p + i;
    }
    require_failed("the number is in the message", __FILE__, __LINE__);
}

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* It is what lies before the checksum. */
size_t open_bundle(tlc_message message, tlc_bundle_reader *r)
{
    enum { HEAD = 14, CHECKSUM = 4 };

    for (size_t begin = HEAD; begin + CHECKSUM < message.len; begin++)
        if (!tlc_bundle_open(r, (const uint8_t *)message.data + begin, message.len - CHECKSUM - begin))
            return begin;
    return 0;
}

static void next_frame(tlc_bundle_reader *r, float *values, size_t n)
{
    const void *frame;
    size_t len;

    require_status(tlc_bundle_next(r, &frame, &len), TLC_OK);
    require_status(tlc_decompress(frame, len, TLC_F32, values, n, NULL), TLC_OK);
}

static int is_small(const network *net, size_t t)
{
    return !net->tensors[t].push && net->tensors[t].n < net->cfg.min_n;
}

int read_push(const network *net, tlc_message push, float *const *values)
{
    tlc_bundle_reader r;
    size_t together = 0, first = 0;

    if (!open_bundle(push, &r))
        return 0;
    for (size_t t = 0; t < NET_TENSORS; t++)
        if (is_small(net, t))
            together += net->tensors[t].n;
        else if (net->tensors[t].n)
            next_frame(&r, values[t], net->tensors[t].n);
    float *small = floats(together);
    if (together)
        next_frame(&r, small, together);
    require(tlc_bundle_next(&r, &(const void *){NULL}, &(size_t){0}) == TLC_ERR_PARAM);
    for (size_t t = 0; t < NET_TENSORS; t++)
        if (is_small(net, t) && net->tensors[t].n) {
            memcpy(values[t], small + first, net->tensors[t].n * sizeof *small);
            first += net->tensors[t].n;
        }
    free(small);
    return 1;
}
