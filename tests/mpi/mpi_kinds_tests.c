/* SPDX-License-Identifier: MIT
 *
 * Ranks that call different functions, or give NULL where something has to be, hear of it: nobody waits.
 */
#include "mpi_scene.h"

/* ---- functions that make something ------------------------------------------------------------------------------- */

static tlc_status update(void *arg, const tlc_allreduce *allreduce, float *const *delta)
{
    (void)arg;
    (void)allreduce;
    (void)delta;
    return TLC_OK;
}

/* What a function is given besides the configuration; NULL is wrong. */
typedef struct gift {
    tlc_mpi **out;
    tlc_mpi_owner_update update;
    const float *const *model;
    const tlc_graph *graph;
} gift;

static tlc_status make_allreduce(const tlc_mpi_config *cfg, const gift *g)
{
    return tlc_mpi_allreduce_create(g->out, cfg);
}
static tlc_status make_owners(const tlc_mpi_config *cfg, const gift *g)
{
    return tlc_mpi_owners_create(g->out, cfg, g->update, NULL);
}
static tlc_status make_worker(const tlc_mpi_config *cfg, const gift *g)
{
    return tlc_mpi_worker_create(g->out, cfg);
}
static tlc_status make_servers(const tlc_mpi_config *cfg, const gift *g)
{
    return rank == ranks - 1 ? tlc_mpi_server_create(g->out, cfg, NULL) : tlc_mpi_worker_create(g->out, cfg);
}
static tlc_status make_dcd(const tlc_mpi_config *cfg, const gift *g)
{
    return tlc_mpi_gossip_create(g->out, cfg, TLC_GOSSIP_DCD, g->model);
}
static tlc_status make_ecd(const tlc_mpi_config *cfg, const gift *g)
{
    return tlc_mpi_gossip_create(g->out, cfg, TLC_GOSSIP_ECD, g->model);
}
static tlc_status make_graph(const tlc_mpi_config *cfg, const gift *g)
{
    MPI_Comm comm = MPI_COMM_NULL;
    tlc_status status = tlc_mpi_graph_create(cfg->comm, g->graph, &comm);

    if (comm != MPI_COMM_NULL)
        MPI_Comm_free(&comm);
    return status;
}

static const struct maker {
    tlc_status (*make)(const tlc_mpi_config *cfg, const gift *g);
    const char *kind;
    int servers;
} makers[] = {
    {make_allreduce, "all-reduce", 0},     {make_owners, "all-reduce with optimizers at the owners", 0},
    {make_worker, "parameter servers", 1}, {make_dcd, "gossip (DCD)", 0},
    {make_ecd, "gossip (ECD)", 0},         {make_graph, "the graph of a communicator", 0},
};

static const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};

/* Rank `odd` calls one function, all others another one. */
static void call_two(const struct maker *of_odd, const struct maker *of_others, int odd)
{
    const struct maker *mine = rank == odd ? of_odd : of_others, *first = odd ? of_others : of_odd;
    const struct maker *theirs = odd ? of_odd : of_others;
    const float *model[] = {NULL, NULL};
    char sentence[200];
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    model[0] = model[1] = s.values;
    s.exchange.servers = (uint32_t)mine->servers;
    s.exchange.workers = mine->servers ? (uint32_t)ranks - 1 : 0;
    const gift all = {&h, update, model, &ring};
    tlc_status status = mine->make(&s.cfg, &all);
    snprintf(sentence, sizeof sentence, "on rank %d the handle is for %s; on rank 0 the handle is for %s",
             odd ? odd : 1, theirs->kind, first->kind);
    if (mine->make == make_graph)
        require_status(status, TLC_ERR_PARAM);
    else
        require_all_told(&s, status, TLC_ERR_PARAM, odd ? (uint32_t)odd : 1, TLC_ALL, sentence);
    require(!h && !s.memory.used);
}

enum { MOST_RANKS = 5 }; /* more of them add nothing but time */

static void two_functions(void)
{
    for (size_t i = 0; i < COUNT(makers) && ranks > 1 && ranks <= MOST_RANKS; i++)
        for (size_t j = 0; j < COUNT(makers); j++)
            if (i != j)
                call_two(&makers[i], &makers[j], (i + j) % 2 ? 0 : ranks - 1);
}

/* ---- NULL -------------------------------------------------------------------------------------------------------- */

typedef enum hole { TENSORS_1, TENSORS_2, EXCHANGE, OUT, NAME, MODEL, MODEL_1, UPDATE, GRAPH, HOLES } hole;

static const char *const why[HOLES] = {"tensors is NULL, but their count is 1",
                                       "tensors is NULL, but their count is 2",
                                       "exchange is NULL",
                                       "the place for the handle is NULL",
                                       "tensor 1: its name is NULL",
                                       "model is NULL",
                                       "tensor 1 (\"fc\"): its entry of model is NULL",
                                       "update is NULL",
                                       ""};

/* The sentence names the rank at fault, whatever it makes, and then says why. */
static void require_hears(const scene *s, int at_fault, const char *end)
{
    const char *said = s->found.sentence;
    char start[32];

    snprintf(start, sizeof start, "rank %d: ", at_fault);
    if (strlen(said) < strlen(end) || strcmp(said + strlen(said) - strlen(end), end) != 0)
        fprintf(stderr, "\"%s\" instead of \"%s\"\n", said, end);
    require(strlen(said) >= strlen(end) && strcmp(said + strlen(said) - strlen(end), end) == 0);
    require(strncmp(said, start, strlen(start)) == 0 && s->found.rank == (uint32_t)at_fault);
    require(s->found.status == TLC_ERR_PARAM && s->found.cause == TLC_ERR_PARAM);
}

/* Makes something of which one thing is NULL, on the last rank or on all. */
static void make_with(const struct maker *maker, hole what, int everywhere)
{
    const float *model[] = {NULL, NULL};
    const int here = everywhere || rank == ranks - 1;
    tlc_mpi *h = NULL;
    MPI_Comm comm;
    scene s;

    scene_set(&s);
    model[0] = model[1] = s.values;
    gift g = {&h, update, model, &ring};
    s.exchange.servers = (uint32_t)maker->servers;
    s.exchange.workers = maker->servers ? (uint32_t)ranks - 1 : 0;
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &ring, &comm), TLC_OK);
    s.cfg.comm = comm;
    if (here)
        switch (what) {
        case TENSORS_1: s.cfg.count = 1; /* fallthrough */
        case TENSORS_2: s.cfg.tensors = NULL; break;
        case EXCHANGE: s.cfg.exchange = NULL; break;
        case OUT: g.out = NULL; break;
        case NAME: s.tensors[1].name = NULL; break;
        case MODEL: g.model = NULL; break;
        case MODEL_1: model[1] = NULL; break;
        case UPDATE: g.update = NULL; break;
        default: g.graph = NULL;
        }
    tlc_status status = maker->make(&s.cfg, &g);
    require_status(status, TLC_ERR_PARAM);
    if (what != GRAPH)
        require_hears(&s, everywhere ? 0 : ranks - 1, why[what]);
    require(!h && !s.memory.used);
    MPI_Comm_free(&comm);
}

static void nothing(void)
{
    static const struct maker servers = {make_servers, "parameter servers", 1};

    for (int everywhere = 0; everywhere < 2 && ranks <= MOST_RANKS; everywhere++) {
        for (hole what = TENSORS_1; what <= NAME; what++) {
            for (size_t i = 0; i < COUNT(makers); i++)
                if (makers[i].make != make_graph && makers[i].make != make_worker)
                    make_with(&makers[i], what, everywhere);
            if (ranks > 1)
                make_with(&servers, what, everywhere);
        }
        for (hole what = MODEL; what <= MODEL_1; what++) {
            make_with(&(struct maker){make_dcd, "", 0}, what, everywhere);
            make_with(&(struct maker){make_ecd, "", 0}, what, everywhere);
        }
        make_with(&(struct maker){make_owners, "", 0}, UPDATE, everywhere);
        make_with(&(struct maker){make_graph, "", 0}, GRAPH, everywhere);
    }
}

static tlc_status no_update(void *arg, const tlc_server *server, float *const *delta)
{
    (void)arg;
    (void)server;
    (void)delta;
    return TLC_OK;
}

/* Calls without a handle, or without what they write to. */
static void no_handle(void)
{
    const float *const *none = NULL;
    tlc_mpi *h = NULL;
    int done;
    scene s;

    scene_set(&s);
    require_status(tlc_mpi_wait(NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_wait_all(NULL, 1), TLC_ERR_PARAM);
    require_status(tlc_mpi_wait_all(&h, 1), TLC_ERR_ORDER);
    require_status(tlc_mpi_test(NULL, &done), TLC_ERR_PARAM);
    require_status(tlc_mpi_outcome(NULL, &s.found), TLC_ERR_PARAM);
    require_status(tlc_mpi_get_stats(NULL, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_stats_init(NULL, 8), TLC_ERR_PARAM);
    require_status(tlc_mpi_allreduce_start(NULL, s.grads, 1, s.out), TLC_ERR_PARAM);
    require_status(tlc_mpi_allreduce(NULL, s.grads, s.out), TLC_ERR_PARAM);
    require_status(tlc_mpi_worker_start(NULL, s.grads, 1, s.out), TLC_ERR_PARAM);
    require_status(tlc_mpi_server_start(NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_server_answer(NULL, none), TLC_ERR_PARAM);
    require_status(tlc_mpi_server_run(NULL, NULL, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_server_run(NULL, no_update, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_gossip_start(NULL, none), TLC_ERR_PARAM);
    require_status(tlc_mpi_gossip_hello(NULL, 0), TLC_ERR_PARAM);
    require(!tlc_mpi_worker_object(NULL) && !tlc_mpi_server_object(NULL) && !tlc_mpi_gossip_object(NULL));
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, NULL, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_allreduce_create(&h, &s.cfg), TLC_OK);
    require_status(tlc_mpi_outcome(h, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_get_stats(h, NULL), TLC_ERR_PARAM);
    require_status(tlc_mpi_allreduce_start(h, NULL, 1, s.out), TLC_OK); /* not in the round */
    require_status(tlc_mpi_wait(h), TLC_OK);
    tlc_mpi_destroy(h);
    require(!s.memory.used);
}

/* ---- workers of servers ------------------------------------------------------------------------------------------ */

static void refused_alone(scene *s, tlc_mpi *worker, uint32_t at_fault, const char *sentence)
{
    tlc_mpi *server = NULL;

    require_status(tlc_mpi_server_create(&server, &s->cfg, worker), TLC_ERR_PARAM);
    require(s->found.status == TLC_ERR_PARAM && s->found.rank == at_fault && !server);
    if (strcmp(s->found.sentence, sentence) != 0)
        fprintf(stderr, "\"%s\" instead of \"%s\"\n", s->found.sentence, sentence);
    require(strcmp(s->found.sentence, sentence) == 0);
}

/* A server that is given no worker, or a wrong one, is refused at once, and the right one is made after that. */
static void wrong_worker(void)
{
    tlc_mpi *worker = NULL, *server = NULL, *other = NULL;
    char sentence[100];
    scene s, t;

    scene_set(&t);
    require_status(tlc_mpi_allreduce_create(&other, &t.cfg), TLC_OK);
    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks;
    require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
    if (rank == ranks - 1) {
        snprintf(sentence, sizeof sentence, "rank %d: this rank is a worker, too, and gives its handle as `worker`",
                 rank);
        refused_alone(&s, NULL, (uint32_t)rank, sentence);
        refused_alone(&s, other, TLC_NOBODY, "worker is not the handle of a worker");
        require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_OK);
        refused_alone(&s, worker, TLC_NOBODY, "worker has a server already");
    } else
        refused_alone(&s, worker, TLC_NOBODY, "worker is given, but its rank is no server");
    tlc_mpi_destroy(worker);
    tlc_mpi_destroy(server);
    tlc_mpi_destroy(other);
    require(!s.memory.used && !t.memory.used);
}

/* A worker whose server could not be made takes no other one: nobody waits for it any more. */
static void worker_without_server(void)
{
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_mpi *worker = NULL, *server = NULL;
    scene s;

    scene_set(&s);
    s.exchange.servers = 1;
    s.exchange.workers = (uint32_t)ranks;
    if (rank == ranks - 1) {
        require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_OK);
        scene_memory(&s, 0); /* not even for the handle */
        require_status(tlc_mpi_server_create(&server, &s.cfg, worker), TLC_ERR_NOMEM);
        scene_memory(&s, -1);
        require_status(tlc_mpi_outcome(worker, &found), TLC_OK);
        require(found.status == TLC_ERR_NOMEM);
        require(strcmp(found.sentence, "the server of this rank was not made") == 0);
        refused_alone(&s, worker, TLC_NOBODY, "worker is of no use any more");
    } else
        require_status(tlc_mpi_worker_create(&worker, &s.cfg), TLC_ERR_NOMEM);
    tlc_mpi_destroy(worker);
    require(!s.memory.used);
}

const mpi_test kinds_tests[] = {
    {"ranks that call two functions", two_functions},
    {"NULL for what is needed", nothing},
    {"no handle", no_handle},
    {"servers with a wrong worker", wrong_worker},
    {"a worker whose server has no memory", worker_without_server},
    {NULL, NULL},
};
