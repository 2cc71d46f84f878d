/* SPDX-License-Identifier: MIT
 *
 * What callers give: configurations of any release, and wrong ones, of which all ranks hear. And how they hear of it.
 */
#include "mpi_scene.h"
#include <limits.h>

/* ---- what is wrong ----------------------------------------------------------------------------------------------- */

/* The last rank, or all of them, has something wrong, and all hear of the first rank that has. */
static void is_wrong(void (*change)(scene *s), int everywhere, size_t tensor, const char *sentence)
{
    const int at_fault = everywhere ? 0 : ranks - 1;
    char whole[300];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    if (everywhere || rank == ranks - 1)
        change(&s);
    snprintf(whole, sizeof whole, "rank %d: %s", at_fault, sentence);
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, (uint32_t)at_fault, tensor, whole);
    require(!h && !s.memory.used);
}

static void no_chunk(scene *s)
{
    s->cfg.chunk = 0;
}
static void large_chunk(scene *s)
{
    s->cfg.chunk = (size_t)INT_MAX + 1;
}
static void small_exchange(scene *s)
{
    s->exchange.struct_size = 7;
}
static void no_alloc(scene *s)
{
    s->exchange.alloc.alloc = NULL;
}
static void odd_name(scene *s)
{
    s->tensors[1].name = "~\x7f\n\x1f\xff w";
    s->tensors[1].push = "3cl";
}

/* An exchange of a later release. */
static struct {
    tlc_exchange_config ours;
    uint64_t newer;
} later;

static void later_exchange(scene *s)
{
    memset(&later, 0, sizeof later);
    later.ours = s->exchange;
    later.ours.struct_size = sizeof later;
    s->cfg.exchange = &later.ours;
}
static void unknown_exchange(scene *s)
{
    later_exchange(s);
    later.newer = 1;
}

static void wrong_things(void)
{
    char sizes[160];

    for (int everywhere = 0; everywhere < 2; everywhere++) {
        is_wrong(no_chunk, everywhere, TLC_ALL, "chunk is 0; it is 1 to 2147483647");
        is_wrong(large_chunk, everywhere, TLC_ALL, "chunk is 2147483648; it is 1 to 2147483647");
        snprintf(sizes, sizeof sizes, "struct_size of exchange is 7; it is at least 8, and what follows %zu bytes is 0",
                 sizeof later.ours);
        is_wrong(small_exchange, everywhere, TLC_ALL, sizes);
        snprintf(sizes, sizeof sizes,
                 "struct_size of exchange is %zu; it is at least 8, and what follows %zu bytes is 0", sizeof later,
                 sizeof later.ours);
        is_wrong(unknown_exchange, everywhere, TLC_ALL, sizes);
        is_wrong(no_alloc, everywhere, TLC_ALL, "of alloc, only free is given");
        is_wrong(odd_name, everywhere, 1,
                 "tensor 1 (\"~???? w\"): push: at 0: \"3cl\": no codec or stage has this name (did you mean 3lc?)");
    }
}

/* Sentences of objects that are longer than what ranks tell each other are cut. Those that do not name the rank do so
 * then. */
static void long_sentences(void)
{
    static const char name[] = "a.name.of.a.tensor.that.is.longer.than.any.sentence.has.room.for.in.its.text";
    static const char codec[] =
        "no-codec-has-a-name-that-is-as-long-as-this-one-which-does-not-end-before-the-sentence";
    tlc_outcome alone = {.struct_size = sizeof alone};
    tlc_allreduce *a = NULL;
    tlc_worker *w = NULL;
    char whole[300];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.tensors[1].name = name;
    s.tensors[1].push = codec;
    s.exchange.workers = (uint32_t)ranks;
    s.exchange.outcome = &alone;
    require_status(tlc_allreduce_create(&a, &s.exchange, 0, s.tensors, 2), TLC_ERR_PARAM);
    require(strncmp(alone.sentence, "rank 0: ", 8) == 0 && strlen(alone.sentence) == 199);
    require_all_told(&s, tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM, 0, 1, alone.sentence);
    s.exchange.servers = 1;
    require_status(tlc_worker_create(&w, &s.exchange, 0, s.tensors, 2), TLC_ERR_PARAM);
    require(strncmp(alone.sentence, "worker 0: ", 10) == 0 && strlen(alone.sentence) == 199);
    snprintf(whole, sizeof whole, "rank 0: %.160s", alone.sentence);
    require_all_told(&s, tlc_mpi_worker_create(&h, &s.cfg), TLC_ERR_PARAM, 0, 1, whole);
    require(!a && !w && !h && !s.memory.used);
}

/* ---- structs of other releases ----------------------------------------------------------------------------------- */

static void makes(const scene *s)
{
    tlc_mpi *h = NULL;

    require_status(tlc_mpi_allreduce_create(&h, &s->cfg), TLC_OK);
    tlc_mpi_destroy(h);
    require(!s->memory.used);
}

static void other_releases(void)
{
    static struct {
        tlc_mpi_config ours;
        uint64_t newer;
    } job;
    tlc_outcome not_read = {.struct_size = sizeof not_read, .sentence = "as before"};
    scene s;

    scene_set(&s);
    later_exchange(&s);
    makes(&s);
    scene_set(&s);
    s.exchange.struct_size = offsetof(tlc_exchange_config, outcome);
    makes(&s);
    s.exchange.struct_size = sizeof s.exchange;
    s.exchange.outcome = &not_read;
    makes(&s);
    s.cfg.chunk = INT_MAX;
    makes(&s);
    s.cfg.chunk = 0; /* is not there */
    s.cfg.struct_size = offsetof(tlc_mpi_config, chunk);
    makes(&s);
    s.exchange.push = "3cl";
    tlc_mpi *h = NULL;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM);
    require(!s.found.sentence[0] && strcmp(not_read.sentence, "as before") == 0);
    scene_set(&s);
    job.ours = s.cfg;
    job.ours.struct_size = sizeof job;
    require_status(tlc_mpi_allreduce_create(&h, &job.ours), TLC_OK);
    tlc_mpi_destroy(h);
    job.newer = 1;
    h = NULL;
    tlc_status status = tlc_mpi_allreduce_create(&h, &job.ours);
    require_all_told(&s, status, TLC_ERR_PARAM, TLC_NOBODY, TLC_ALL,
                     "struct_size of the configuration is not one of this library");
    job.newer = 0;
    require(!h && !s.memory.used);
}

static void defaults(void)
{
    struct {
        tlc_mpi_config ours;
        uint64_t newer;
    } job;
    tlc_mpi_stats stats;

    memset(&job, 0xff, sizeof job);
    require_status(tlc_mpi_config_init(&job.ours, sizeof job, MPI_COMM_SELF), TLC_OK);
    require(job.ours.struct_size == sizeof job && job.ours.comm == MPI_COMM_SELF && job.ours.chunk == 1 << 30);
    require(!job.ours.exchange && !job.ours.tensors && !job.ours.count && !job.ours.outcome && !job.newer);
    require_status(tlc_mpi_config_init(&job.ours, 8, MPI_COMM_WORLD), TLC_OK);
    require(job.ours.struct_size == 8 && job.ours.comm == MPI_COMM_SELF);
    require_status(tlc_mpi_config_init(&job.ours, 7, MPI_COMM_WORLD), TLC_ERR_PARAM);
    require_status(tlc_mpi_config_init_fortran(&job.ours, 7, MPI_Comm_c2f(MPI_COMM_WORLD)), TLC_ERR_PARAM);
    memset(&stats, 0xff, sizeof stats);
    require_status(tlc_mpi_stats_init(&stats, sizeof stats), TLC_OK);
    require(stats.struct_size == sizeof stats && !stats.sent && !stats.received && !stats.messages);
    require(stats.codec == 0 && stats.waiting == 0);
    require_status(tlc_mpi_stats_init(&stats, 7), TLC_ERR_PARAM);
}

/* ---- outcomes of all sizes --------------------------------------------------------------------------------------- */

/* An outcome of this size, after a call that fails with and without a communicator. */
static void hears(size_t size)
{
    for (int alone = 0; alone < 2; alone++) {
        tlc_outcome before;
        tlc_mpi *h = NULL;
        scene s;
        scene_set(&s);
        s.exchange.push = "3cl";
        if (alone)
            s.cfg.comm = MPI_COMM_NULL;
        memset(&s.found, 0x3c, sizeof s.found);
        s.found.struct_size = size;
        before = s.found;
        require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM);
        require(s.found.struct_size == size);
        if (size > 8) {
            require(s.found.status == TLC_ERR_PARAM && s.found.cause == TLC_ERR_PARAM && !s.found.step);
            require(s.found.rank == (alone ? TLC_NOBODY : 0));
        }
        const size_t same_from = size < 8 ? 8 : size;
        require(same((const char *)&s.found + same_from, (const char *)&before + same_from, sizeof before - same_from));
    }
}

static void outcomes(void)
{
    static const size_t sizes[] = {0, 7, 8, offsetof(tlc_outcome, tensor), offsetof(tlc_outcome, sentence)};
    tlc_mpi *h = NULL;
    scene s;

    for (size_t i = 0; i < COUNT(sizes); i++)
        hears(sizes[i]);
    scene_set(&s);
    s.exchange.push = "3cl";
    s.cfg.outcome = NULL; /* nobody asks */
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM);
    s.cfg.comm = MPI_COMM_NULL;
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM);
    require(!h && !s.memory.used);
    for (int i = 0; i < 2; i++) { /* a configuration of which the outcome is no part */
        scene_set(&s);
        s.cfg.struct_size = i ? 7 : offsetof(tlc_mpi_config, outcome);
        s.cfg.comm = MPI_COMM_NULL;
        require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_ERR_PARAM);
        require(!s.found.status && !s.found.sentence[0] && !h);
    }
}

/* ---- memory of the caller ---------------------------------------------------------------------------------------- */

/* A copy that ends at a guard page, or nearly. */
static void *at_end(tlc_allocator a, const void *bytes, size_t size)
{
    void *copy = a.alloc(a.opaque, size);

    require(copy);
    return memcpy(copy, bytes, size);
}

static tlc_status make_none(void *arg, const tlc_allreduce *allreduce, float *const *delta)
{
    (void)arg;
    (void)delta;
    return tlc_allreduce_parts(allreduce) ? TLC_ERR_STEP : TLC_OK;
}

/* Nothing is read or written past the end of what callers give, and the lists are copied. */
static void ends(void)
{
    static const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};
    heap memory = {.left = -1};
    const tlc_allocator a = heap_allocator(&memory);
    tlc_mpi *h = NULL;
    MPI_Comm comm;
    scene s;

    scene_set(&s);
    s.tensors[0].name = at_end(a, "a.name.of.31.characters.and.a.0", 32);
    float *const values[] = {at_end(a, s.values, 300 * sizeof(float)), at_end(a, s.values, 400 * sizeof(float))};
    const void *const *grads = at_end(a, values, sizeof values);
    void *const *out = at_end(a, values, sizeof values);
    const float *const *model = at_end(a, values, sizeof values);
    s.cfg.tensors = at_end(a, s.tensors, sizeof s.tensors);
    s.cfg.exchange = at_end(a, &s.exchange, sizeof s.exchange);
    tlc_mpi_config *cfg = at_end(a, &s.cfg, sizeof s.cfg);
    const tlc_graph *graph = at_end(a, &ring, sizeof ring);
    require_status(tlc_mpi_allreduce_create(&h, cfg), TLC_OK);
    require_status(tlc_mpi_allreduce(h, grads, out), TLC_OK);
    tlc_mpi_destroy(h);
    require_status(tlc_mpi_owners_create(&h, cfg, make_none, NULL), TLC_OK);
    require_status(tlc_mpi_allreduce(h, grads, out), TLC_ERR_STEP);
    tlc_mpi_destroy(h);
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, graph, &comm), TLC_OK);
    cfg->comm = comm;
    require_status(tlc_mpi_gossip_create(&h, cfg, TLC_GOSSIP_DCD, model), TLC_OK);
    heap_empty(&memory); /* before the handle goes */
    for (int i = 0; i < 2; i++)
        s.grads[i] = s.values;
    require_status(tlc_mpi_gossip_start(h, (const float *const *)s.grads), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_OK);
    tlc_mpi_destroy(h);
    MPI_Comm_free(&comm);
    require(!s.memory.used);
}

/* ---- places of workers and servers ------------------------------------------------------------------------------- */

/* So many workers and servers have no place on these ranks. */
static void has_no_place(uint32_t workers, uint32_t servers)
{
    char sentence[200];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.exchange.workers = workers;
    s.exchange.servers = servers;
    snprintf(sentence, sizeof sentence,
             "rank 0: workers is %u and servers is %u, but there are %d ranks; each is 1 to %d, and together they are "
             "at least %d",
             workers, servers, ranks, ranks, ranks);
    require_all_told(&s, tlc_mpi_worker_create(&h, &s.cfg), TLC_ERR_PARAM, 0, TLC_ALL, sentence);
    require_all_told(&s, tlc_mpi_server_create(&h, &s.cfg, NULL), TLC_ERR_PARAM, 0, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

static void places(void)
{
    const uint32_t all = (uint32_t)ranks;
    char sentence[100];
    tlc_mpi *h = NULL;
    scene s;

    has_no_place(0, 0);
    has_no_place(all, 0);
    has_no_place(0, all);
    has_no_place(all + 1, 1);
    has_no_place(1, all + 1);
    has_no_place(1, UINT32_C(1) << 31);
    if (ranks > 2)
        has_no_place(1, all - 2);
    if (ranks < 2)
        return;
    scene_set(&s);
    s.exchange.workers = 1;
    s.exchange.servers = all - 1;
    snprintf(sentence, sizeof sentence, "rank 0: this rank is not a server: servers are ranks 1 to %d", ranks - 1);
    require_all_told(&s, tlc_mpi_server_create(&h, &s.cfg, NULL), TLC_ERR_PARAM, 0, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

/* A rank that is worker and server gives its worker to a server of which the configuration has fewer workers. */
static void other_places(void)
{
    char sentence[100];
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    if (ranks < 2)
        return;
    scene_set(&s);
    s.exchange.workers = (uint32_t)ranks;
    s.exchange.servers = 1;
    snprintf(sentence, sizeof sentence, "rank %d: worker is given, but this rank is not a worker", ranks - 1);
    tlc_status status = tlc_mpi_worker_create(&worker, &s.cfg);
    if (rank == ranks - 1) {
        require_status(status, TLC_OK);
        s.exchange.workers--;
        status = tlc_mpi_server_create(&server, &s.cfg, worker);
    }
    require_all_told(&s, status, TLC_ERR_PARAM, (uint32_t)ranks - 1, TLC_ALL, sentence);
    tlc_mpi_destroy(worker);
    require(!server && !s.memory.used);
}

const mpi_test config_tests[] = {
    {"wrong configurations", wrong_things},
    {"sentences that are too long", long_sentences},
    {"structs of other releases", other_releases},
    {"defaults", defaults},
    {"outcomes of all sizes", outcomes},
    {"memory of callers", ends},
    {"workers and servers without a place", places},
    {"a server that does not fit its worker", other_places},
    {NULL, NULL},
};
