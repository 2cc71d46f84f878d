/* SPDX-License-Identifier: MIT
 *
 * The objects of the exchange with many tensors, parts, ranks and owners.
 */
#include "../../src/exchange/objects/object_state.h"
#include "../../src/frames/frame.h"
#include "growth.h"
#include <threelc/exchange.h>
#include <threelc/gossip.h>

/* ---- what scenes share ------------------------------------------------------------------------------------------- */

enum { LEN = 24, VALUES = 16 };
static const tlc_allocator no_alloc = {NULL, NULL, NULL};

static char (*names)[LEN];
static tlc_tensor *tensors;
static float **values; /* of each tensor */
static size_t tensor_count;

/* Tensors of n values each. only: tensor i is that of worker i alone. */
static void open_tensors(size_t count, size_t n, int only)
{
    names = (char(*)[LEN])bytes(count * LEN);
    tensors = (tlc_tensor *)(void *)bytes(count * sizeof *tensors);
    values = (float **)(void *)bytes(count * sizeof *values);
    tensor_count = count;
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(names[i], LEN, "t%zu", i);
        require_status(tlc_tensor_init(&tensors[i], sizeof *tensors), TLC_OK);
        tensors[i].name = names[i];
        tensors[i].n = n;
        tensors[i].only = only ? (uint32_t)i : TLC_NOBODY;
        values[i] = floats(n);
        fill(DATA_LAPLACE, i, values[i], n);
    }
}

static void close_tensors(void)
{
    for (size_t i = 0; i < tensor_count; i++)
        free(values[i]);
    free(values);
    free(tensors);
    free(names);
}

static tlc_exchange_config configuration(size_t workers, size_t servers)
{
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.workers = (uint32_t)workers;
    cfg.servers = (uint32_t)servers;
    cfg.min_n = 1;
    cfg.keep = 1;
    return cfg;
}

static const void *const *gradients(void)
{
    return (const void *const *)(const void *)values;
}

static tlc_message saved(size_t size)
{
    return (tlc_message){bytes(size), size};
}

static void drop(const tlc_message *m)
{
    free((void *)(uintptr_t)m->data);
}

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

enum { RANKS = 2 };

static void use_part_lists(tlc_allreduce *a)
{
    tlc_part part = {.struct_size = sizeof part};

    MEASURE("parts, pushed_parts", {
        for (size_t i = 0; i < tlc_allreduce_parts(a); i++)
            require_status(tlc_allreduce_part(a, i, &part), TLC_OK);
        for (size_t i = 0; i < tlc_allreduce_pushed_parts(a); i++)
            require_status(tlc_allreduce_pushed_part(a, i, &part), TLC_OK);
    });
    MEASURE("set_codec of each", {
        for (size_t t = 0; t < tensor_count; t++)
            require_status(tlc_allreduce_set_codec(a, t, t % 2 ? "3lc" : "3lc-golomb", "3lc"), TLC_OK);
    });
    MEASURE("residual_scale", require_status(tlc_allreduce_residual_scale(a, 0.5f), TLC_OK));
}

/* The states of all ranks, by another number of them. */
static void load_all(tlc_message *states, size_t count)
{
    tlc_exchange_config cfg = configuration(count + 1, 0);
    tlc_allreduce *a;

    cfg.reserve = "3lc;3lc-golomb";
    require_status(tlc_allreduce_create(&a, &cfg, 0, tensors, tensor_count), TLC_OK);
    MEASURE("state_load of all", require_status(tlc_allreduce_state_load(a, states, count), TLC_OK));
    tlc_allreduce_destroy(a);
}

static void with_tensors(size_t n)
{
    tlc_exchange_config cfg = configuration(RANKS, 0);
    tlc_message push[RANKS][RANKS], answer[RANKS], state[RANKS];
    tlc_allreduce *rank[RANKS];
    size_t written;

    open_tensors(n, VALUES, 0);
    cfg.reserve = "3lc;3lc-golomb";
    cfg.alloc = counting_allocator;
    for (uint32_t i = 0; i < RANKS; i++)
        MEASURE("create", require_status(tlc_allreduce_create(&rank[i], &cfg, i, tensors, n), TLC_OK));
    measure_bytes("bytes");
    for (uint32_t i = 0; i < RANKS; i++)
        MEASURE("push", require_status(tlc_allreduce_push(rank[i], gradients(), 1, push[i]), TLC_OK));
    for (uint32_t i = 0; i < RANKS; i++) {
        const tlc_message from[RANKS] = {push[0][i], push[1][i]};
        MEASURE("reduce", require_status(tlc_allreduce_reduce(rank[i], from, &answer[i]), TLC_OK));
    }
    for (uint32_t i = 0; i < RANKS; i++)
        MEASURE("pull", require_status(tlc_allreduce_pull(rank[i], answer, (void *const *)(void *)values), TLC_OK));
    use_part_lists(rank[0]);
    for (uint32_t i = 0; i < RANKS; i++) {
        MEASURE("state_size", written = tlc_allreduce_state_size(rank[i]));
        state[i] = saved(written);
        MEASURE("state_save",
                require_status(tlc_allreduce_state_save(rank[i], (void *)(uintptr_t)state[i].data, written, &written),
                               TLC_OK));
    }
    MEASURE("state_load", require_status(tlc_allreduce_state_load(rank[0], state, 1), TLC_OK));
    load_all(state, RANKS);
    for (uint32_t i = 0; i < RANKS; i++) {
        tlc_allreduce_destroy(rank[i]);
        drop(&state[i]);
    }
    close_tensors();
}

TEST(of_tensors)
{
    require_linear("tensors", with_tensors, quick() ? 250 : 1000);
}

/* ---- ranks that all own something -------------------------------------------------------------------------------- */

/* Small tensors, and as many owners as ranks. */
static void with_owners(size_t ranks, size_t count)
{
    tlc_exchange_config cfg = configuration(ranks, 0);
    tlc_message *to = (tlc_message *)(void *)bytes(ranks * sizeof *to);
    tlc_allreduce *a;

    open_tensors(count, 5, 0);
    cfg.alloc = counting_allocator;
    MEASURE("create", require_status(tlc_allreduce_create(&a, &cfg, 0, tensors, count), TLC_OK));
    measure_bytes("bytes");
    MEASURE("push", require_status(tlc_allreduce_push(a, gradients(), 1, to), TLC_OK));
    tlc_allreduce_destroy(a);
    free(to);
    close_tensors();
}

static void with_ranks(size_t n)
{
    with_owners(n, n);
}

TEST(of_ranks_and_tensors)
{
    require_linear("ranks and tensors", with_ranks, quick() ? 256 : 2048);
}

static void with_one_tensor(size_t n)
{
    with_owners(n, 1);
}

TEST(of_ranks)
{
    require_linear("ranks", with_one_tensor, quick() ? 2048 : 16384);
}

/* Each tensor is that of one worker, and all share one owner. */
static void with_only(size_t n)
{
    tlc_exchange_config cfg = configuration(n, 1);
    tlc_server *s;

    open_tensors(n, 5, 1);
    cfg.min_n = 256;
    cfg.alloc = counting_allocator;
    MEASURE("create", require_status(tlc_server_create(&s, &cfg, 0, tensors, n), TLC_OK));
    measure_bytes("bytes");
    tlc_server_destroy(s);
    close_tensors();
}

TEST(of_tensors_of_one_worker)
{
    require_linear("tensors of one worker each", with_only, quick() ? 512 : 2048);
}

/* ---- a tensor in many pieces ------------------------------------------------------------------------------------- */

/* One tensor that all ranks own a piece of, so that a state has an entry for each. */
static void with_pieces(size_t n)
{
    tlc_exchange_config cfg = configuration(n, 0);
    tlc_message state;
    tlc_allreduce *a;
    size_t written;

    open_tensors(1, VALUES * n, 0);
    cfg.split_n = 1;
    cfg.reserve = "3lc;sbc:p=0.1";
    cfg.alloc = counting_allocator;
    MEASURE("create", require_status(tlc_allreduce_create(&a, &cfg, 0, tensors, 1), TLC_OK));
    measure_bytes("bytes");
    MEASURE("set_codec", require_status(tlc_allreduce_set_codec(a, 0, "sbc:p=0.1", NULL), TLC_OK));
    written = tlc_allreduce_state_size(a);
    state = saved(written);
    MEASURE("state_save",
            require_status(tlc_allreduce_state_save(a, (void *)(uintptr_t)state.data, written, &written), TLC_OK));
    require_status(tlc_allreduce_set_codec(a, 0, "3lc", NULL), TLC_OK);
    MEASURE("state_load", require_status(tlc_allreduce_state_load(a, &state, 1), TLC_OK));
    tlc_allreduce_destroy(a);
    drop(&state);
    close_tensors();
}

TEST(of_pieces)
{
    require_linear("pieces of a tensor", with_pieces, quick() ? 256 : 1024);
}

/* ---- workers, and their states ----------------------------------------------------------------------------------- */

static void with_workers(size_t n)
{
    tlc_exchange_config cfg = configuration(n, 1);
    tlc_worker **worker = (tlc_worker **)(void *)bytes(n * sizeof(tlc_worker *));
    tlc_message *push = (tlc_message *)(void *)bytes(n * sizeof *push), answer;
    tlc_message *state = (tlc_message *)(void *)bytes(n * sizeof *state);
    tlc_server *s;
    size_t written;

    open_tensors(1, VALUES, 0);
    cfg.backup = (uint32_t)n / 2;
    cfg.alloc = counting_allocator;
    MEASURE("server_create", require_status(tlc_server_create(&s, &cfg, 0, tensors, 1), TLC_OK));
    measure_bytes("server's bytes");
    cfg.alloc = no_alloc;
    for (uint32_t i = 0; i < n; i++) {
        require_status(tlc_worker_create(&worker[i], &cfg, i, tensors, 1), TLC_OK);
        require_status(tlc_worker_push(worker[i], gradients(), 1, &push[i]), TLC_OK);
    }
    MEASURE("server_push", {
        for (uint32_t i = 0; i < n; i++)
            require_status(tlc_server_push(s, push[i], NULL), TLC_OK);
    });
    MEASURE("server_reduce", require_status(tlc_server_reduce(s), TLC_OK));
    MEASURE("server_answer", require_status(tlc_server_answer(s, NULL, &answer), TLC_OK));
    for (uint32_t i = 0; i < n; i++) {
        require_status(tlc_worker_pull(worker[i], &answer, (void *const *)(void *)values), TLC_OK);
        written = tlc_worker_state_size(worker[i]);
        state[i] = saved(written);
        require_status(tlc_worker_state_save(worker[i], (void *)(uintptr_t)state[i].data, written, &written), TLC_OK);
        tlc_worker_destroy(worker[i]);
    }
    cfg.workers = 1;
    cfg.backup = 0;
    require_status(tlc_worker_create(&worker[0], &cfg, 0, tensors, 1), TLC_OK);
    MEASURE("state_load of all", require_status(tlc_worker_state_load(worker[0], state, n), TLC_OK));
    MEASURE("state_load of half", require_status(tlc_worker_state_load(worker[0], state, n / 2), TLC_ERR_PARAM));
    tlc_worker_destroy(worker[0]);
    tlc_server_destroy(s);
    for (size_t i = 0; i < n; i++)
        drop(&state[i]);
    free(worker);
    free(push);
    free(state);
    close_tensors();
}

TEST(of_workers)
{
    require_linear("workers", with_workers, quick() ? 256 : 1024);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* The states of all nodes of a ring, by a node of another one. */
static void with_nodes(size_t n)
{
    tlc_exchange_config cfg = configuration(n, 0);
    const double weights[3] = {0.5, 0.25, 0.25};
    tlc_message *state = (tlc_message *)(void *)bytes(n * sizeof *state);
    tlc_gossip *g;
    size_t written;

    open_tensors(1, VALUES, 0);
    const float *const *model = (const float *const *)(const void *)values;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t neighbours[2] = {(i + 1) % (uint32_t)n, (i + (uint32_t)n - 1) % (uint32_t)n};
        require_status(tlc_gossip_create(&g, &cfg, TLC_GOSSIP_DCD, i, neighbours, weights, 2, tensors, 1, model),
                       TLC_OK);
        written = tlc_gossip_state_size(g);
        state[i] = saved(written);
        require_status(tlc_gossip_state_save(g, (void *)(uintptr_t)state[i].data, written, &written), TLC_OK);
        tlc_gossip_destroy(g);
    }
    const uint32_t neighbours[2] = {1, 2};
    cfg.workers = 3;
    require_status(tlc_gossip_create(&g, &cfg, TLC_GOSSIP_DCD, 0, neighbours, weights, 2, tensors, 1, model), TLC_OK);
    MEASURE("state_load of all", require_status(tlc_gossip_state_load(g, state, n), TLC_OK));
    tlc_gossip_destroy(g);
    for (size_t i = 0; i < n; i++)
        drop(&state[i]);
    free(state);
    close_tensors();
}

TEST(of_nodes)
{
    require_linear("nodes", with_nodes, quick() ? 256 : 1024);
}

/* A node with many neighbours and many tensors. */
static void with_neighbours(size_t n)
{
    tlc_exchange_config cfg = configuration(n + 1, 0);
    uint32_t *neighbours = (uint32_t *)(void *)bytes(n * sizeof *neighbours);
    double *weights = (double *)(void *)bytes((n + 1) * sizeof *weights);
    tlc_message state, to;
    tlc_gossip *g;
    size_t written;

    open_tensors(64, 1, 0);
    weights[0] = 0.5;
    for (size_t i = 0; i < n; i++) {
        neighbours[i] = (uint32_t)i + 1;
        weights[i + 1] = 0.5 / (double)n;
    }
    const float *const *model = (const float *const *)(const void *)values;
    cfg.alloc = counting_allocator;
    MEASURE("create",
            require_status(tlc_gossip_create(&g, &cfg, TLC_GOSSIP_DCD, 0, neighbours, weights, n, tensors, 64, model),
                           TLC_OK));
    measure_bytes("bytes");
    MEASURE("push", require_status(tlc_gossip_push(g, model, &to), TLC_OK));
    tlc_gossip_destroy(g);
    cfg.alloc = no_alloc;
    require_status(tlc_gossip_create(&g, &cfg, TLC_GOSSIP_DCD, 0, neighbours, weights, n, tensors, 64, model), TLC_OK);
    MEASURE("hello", require_status(tlc_gossip_hello(g, 0, &to), TLC_OK));
    written = tlc_gossip_state_size(g);
    state = saved(written);
    MEASURE("state_save",
            require_status(tlc_gossip_state_save(g, (void *)(uintptr_t)state.data, written, &written), TLC_OK));
    MEASURE("state_load", require_status(tlc_gossip_state_load(g, &state, 1), TLC_OK));
    tlc_gossip_destroy(g);
    drop(&state);
    free(neighbours);
    free(weights);
    close_tensors();
}

TEST(of_neighbours)
{
    require_linear("neighbours", with_neighbours, quick() ? 64 : 256);
}

/* ---- forged states ----------------------------------------------------------------------------------------------- */

static size_t put_number(uint8_t *p, uint64_t x)
{
    size_t end = 0;

    for (; x >= 128; x >>= 7)
        p[end++] = (uint8_t)(x | 128);
    p[end++] = (uint8_t)x;
    return end;
}

static size_t put_text(uint8_t *p, const char *text)
{
    const size_t end = put_number(p, strlen(text));

    memcpy(p + end, text, strlen(text));
    return end + strlen(text);
}

/* A state whose entries are all of one tensor in many pieces, and have the one codec or another in turn. */
static tlc_message forge(const uint8_t *head, size_t n, const char *const codecs_[2])
{
    uint8_t *p = bytes(TLC_STATE_FIXED + 64 + n * 40);
    size_t end = TLC_STATE_FIXED;

    memcpy(p, head, end);
    end += put_number(p + end, n); /* workers, servers, rank, entries */
    end += put_number(p + end, 0);
    end += put_number(p + end, 0);
    end += put_number(p + end, n);
    memset(p + end, 0, 8); /* the history */
    end += 8;
    for (size_t i = 0; i < n; i++) {
        p[end++] = 0;
        end += put_text(p + end, "t0");
        end += put_number(p + end, VALUES * n); /* its values, and those of the entry */
        end += put_number(p + end, 0);
        end += put_number(p + end, VALUES * n);
        end += put_text(p + end, codecs_[i % 2]);
    }
    const uint32_t sum = tlc_checksum(p, end);
    for (int i = 0; i < 4; i++)
        p[end++] = (uint8_t)(sum >> 8 * i);
    return (tlc_message){p, end};
}

static void with_forged_entries(size_t n)
{
    static const char *const same[2] = {"sbc:p=0.1", "sbc:p=0.1"}, *const other[2] = {"sbc:p=0.1", "3lc"};
    tlc_exchange_config cfg = configuration(n, 0);
    tlc_allreduce *a;
    size_t written;

    open_tensors(1, VALUES * n, 0);
    cfg.split_n = 1;
    cfg.reserve = "3lc;sbc:p=0.1";
    require_status(tlc_allreduce_create(&a, &cfg, 0, tensors, 1), TLC_OK);
    const size_t size = tlc_allreduce_state_size(a);
    uint8_t *own = bytes(size);
    require_status(tlc_allreduce_state_save(a, own, size, &written), TLC_OK);
    tlc_message repeated = forge(own, n, same), mixed = forge(own, n, other);
    MEASURE("repeated", require_status(tlc_allreduce_state_salvage(a, &repeated, 1), TLC_OK));
    MEASURE("mixed", require_status(tlc_allreduce_state_salvage(a, &mixed, 1), TLC_ERR_CORRUPT));
    tlc_allreduce_destroy(a);
    free(own);
    drop(&repeated);
    drop(&mixed);
    close_tensors();
}

TEST(of_forged_states)
{
    require_linear("forged entries", with_forged_entries, quick() ? 256 : 1024);
}
