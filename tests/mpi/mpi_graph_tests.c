/* SPDX-License-Identifier: MIT
 *
 * Graphs of communicators: each thing that is wrong with edges, weights, or one of the fields of a graph.
 */
#include "mpi_scene.h"

/* ---- edges ------------------------------------------------------------------------------------------------------- */

enum { MOST = 4 };

/* What edges come to this rank, and go from it. */
typedef struct edges {
    int in, out, from[MOST], to[MOST], in_weight[MOST], out_weight[MOST];
    int weighted;
} edges;

static MPI_Comm comm_of(const edges *e)
{
    int *volatile unweighted = MPI_UNWEIGHTED; /* volatile: gcc would take it for the address of an array */
    int *volatile none = MPI_WEIGHTS_EMPTY;
    MPI_Comm comm;

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, e->in, e->from,
                                   e->weighted ? e->in ? e->in_weight : none : unweighted, e->out, e->to,
                                   e->weighted ? e->out ? e->out_weight : none : unweighted, MPI_INFO_NULL, 0, &comm);
    return comm;
}

/* Makes a node on each rank of this graph. sentence NULL: it is made, and its mean after a step is that of W. */
static void makes_node(const edges *e, const char *sentence)
{
    MPI_Comm comm = comm_of(e);
    tlc_mpi *h = NULL;
    scene s;

    scene_set(&s);
    s.cfg.comm = comm;
    s.exchange.push = "raw";
    const float *const model[] = {s.values, s.values};
    tlc_status status = tlc_mpi_gossip_create(&h, &s.cfg, TLC_GOSSIP_DCD, model);
    if (sentence) {
        require_status(status, TLC_ERR_PARAM);
        if (strcmp(s.found.sentence, sentence) != 0)
            fprintf(stderr, "\"%s\" instead of \"%s\"\n", s.found.sentence, sentence);
        require(strcmp(s.found.sentence, sentence) == 0 && !h);
    } else {
        double mean = rank;
        require_status(status, TLC_OK);
        s.values[0] = (float)rank;
        require_status(tlc_mpi_gossip_start(h, model), TLC_OK);
        require_status(tlc_mpi_wait(h), TLC_OK);
        for (int i = 0; i < e->in && e->weighted; i++)
            mean += (double)e->in_weight[i] / TLC_MPI_WEIGHT_ONE * (e->from[i] - rank);
        const double off = mean - (double)tlc_gossip_mean(tlc_mpi_gossip_object(h), 0)[0];
        require(!e->weighted || (off < 1e-5 && off > -1e-5));
    }
    tlc_mpi_destroy(h);
    MPI_Comm_free(&comm);
    require(!s.memory.used);
}

/* Edges between the first two ranks. */
static edges pair(int in, int out)
{
    edges e = {.in = rank < 2 ? in : 0, .out = rank < 2 ? out : 0};

    for (int i = 0; i < MOST; i++)
        e.from[i] = e.to[i] = 1 - rank;
    return e;
}

static edges weighted_pair(int weight)
{
    edges e = pair(1, 1);

    e.weighted = 1;
    e.in_weight[0] = e.out_weight[0] = weight;
    return e;
}

static void wrong_edges(void)
{
    edges e;

    if (ranks < 2)
        return;
    e = pair(1, 2);
    makes_node(&e, "rank 0: there are 1 edges from rank 1 and 2 to it");
    e = pair(2, 2);
    makes_node(&e, "rank 0: there are 2 edges from rank 1 and 2 to it");
    e = (edges){.in = rank == 0, .out = rank == 1, .from = {1}, .to = {0}};
    makes_node(&e, "rank 0: an edge comes from rank 1 to this rank, and none goes back");
    e = (edges){.in = rank == 1, .out = rank == 0, .from = {0}, .to = {1}};
    makes_node(&e, "rank 0: an edge goes from this rank to rank 1, and none comes back");
}

static void weights(void)
{
    edges e;

    if (ranks < 2)
        return;
    e = weighted_pair(TLC_MPI_WEIGHT_ONE / 4);
    makes_node(&e, NULL);
    e = weighted_pair(TLC_MPI_WEIGHT_ONE);
    makes_node(&e, NULL);
    e = weighted_pair(TLC_MPI_WEIGHT_ONE + 1); /* rounding */
    makes_node(&e, NULL);
    e = weighted_pair(TLC_MPI_WEIGHT_ONE + (1 << 12));
    makes_node(&e, "rank 0: node 0: the own weight, after those of 1 neighbours, is -3.8147e-6; it is at least 0");
    e = pair(1, 1);
    makes_node(&e, NULL);
}

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* One rank, the first or the last, has another graph. */
static void differ(tlc_graph usual, tlc_graph odd)
{
    for (int first = 0; first < 2; first++) {
        const tlc_graph *mine = rank == (first ? 0 : ranks - 1) ? &odd : &usual;
        MPI_Comm comm = MPI_COMM_NULL;
        require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, mine, &comm), TLC_ERR_PARAM);
        require(comm == MPI_COMM_NULL);
    }
}

static void other_graphs(void)
{
    const tlc_graph graph = {.struct_size = sizeof graph, .kind = TLC_GRAPH_RANDOM, .p = 0.9, .seed = 5};
    tlc_graph odd = graph, torus = graph;

    if (ranks < 2)
        return;
    odd.seed++;
    differ(graph, odd);
    odd = graph;
    odd.p = 0.95;
    differ(graph, odd);
    odd = graph;
    odd.kind = TLC_GRAPH_COMPLETE;
    differ(graph, odd);
    torus.kind = TLC_GRAPH_TORUS;
    torus.rows = 1;
    odd = torus;
    odd.rows = (uint32_t)ranks;
    differ(torus, odd);
}

/* A graph of another release, and one that is made: it has no weights, and the ranks of the communicator. */
static void made(void)
{
    struct {
        tlc_graph ours;
        uint64_t newer;
    } graph = {.ours = {.struct_size = sizeof graph, .kind = TLC_GRAPH_RING, .nodes = 99}};
    MPI_Comm comm = MPI_COMM_NULL;
    int *volatile unweighted = MPI_UNWEIGHTED; /* volatile: gcc would take it for the address of an array */
    int in, out, weighted, size, own, from[2];

    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &graph.ours, &comm), TLC_OK);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    MPI_Comm_size(comm, &size);
    MPI_Comm_rank(comm, &own);
    require(in == out && in == (ranks < 3 ? ranks - 1 : 2) && !weighted && size == ranks && own == rank);
    MPI_Comm_free(&comm);
    tlc_graph oldest = {.struct_size = sizeof oldest.struct_size, .kind = TLC_GRAPH_COMPLETE}; /* a ring, if not said */
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &oldest, &comm), TLC_OK);
    MPI_Dist_graph_neighbors_count(comm, &in, &out, &weighted);
    require(in == (ranks < 3 ? ranks - 1 : 2));
    MPI_Dist_graph_neighbors(comm, in, from, unweighted, in, from, unweighted);
    for (int i = 0; i < in; i++)
        require((from[i] - rank + ranks) % ranks == 1 || (rank - from[i] + ranks) % ranks == 1);
    MPI_Comm_free(&comm);
    graph.newer = 1; /* cppcheck-suppress unreadVariable ; the library reads it */
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &graph.ours, &comm), TLC_ERR_PARAM);
    graph.ours.struct_size = 7;
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &graph.ours, &comm), TLC_ERR_PARAM);
    require(comm == MPI_COMM_NULL);
}

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* The first node goes back to its first step, or to the one that it saved there. */
static void load_first(tlc_gossip *g, tlc_message *state)
{
    size_t size = tlc_gossip_state_size(g);
    void *bytes = malloc(size);

    require(bytes);
    require_status(tlc_gossip_state_save(g, bytes, size, &size), TLC_OK);
    if (state->data)
        require_status(tlc_gossip_state_load(g, state, 1), TLC_OK);
    free((void *)(uintptr_t)state->data);
    *state = (tlc_message){bytes, size};
}

/* Neighbours that are in different steps. A hello that fails leaves nodes as they are. A node that does not take what
 * comes in a step is of no use from then on. */
static void nodes_fail(void)
{
    const tlc_graph complete = {.struct_size = sizeof complete, .kind = TLC_GRAPH_COMPLETE};
    tlc_outcome found = {.struct_size = sizeof found};
    tlc_message state = {NULL, 0};
    tlc_mpi *h = NULL;
    MPI_Comm comm;
    scene s;

    if (ranks < 2)
        return;
    scene_set(&s);
    const float *const model[] = {s.values, s.values}, *const one[] = {s.values, NULL};
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &complete, &comm), TLC_OK);
    s.cfg.comm = comm;
    require_status(tlc_mpi_gossip_create(&h, &s.cfg, TLC_GOSSIP_ECD, model), TLC_OK);
    MPI_Comm_free(&comm);
    tlc_gossip *g = tlc_mpi_gossip_object(h);
    load_first(g, &state);
    require_status(tlc_mpi_gossip_start(h, one), TLC_ERR_PARAM); /* sends nothing */
    require_status(tlc_mpi_gossip_start(h, model), TLC_OK);
    require_status(tlc_mpi_gossip_hello(h, 1), TLC_ERR_ORDER);
    require_status(tlc_mpi_wait(h), TLC_OK);
    if (rank == 0)
        load_first(g, &state);
    require_status(tlc_mpi_gossip_hello(h, 0), TLC_ERR_ORDER);
    require_status(tlc_mpi_outcome(h, &found), TLC_OK);
    require(found.status == TLC_ERR_ORDER && strstr(found.sentence, "step"));
    if (rank == 0)
        load_first(g, &state);
    require_status(tlc_mpi_gossip_hello(h, 1), TLC_OK);
    require_status(tlc_mpi_gossip_start(h, model), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_OK);
    if (rank == 0)
        load_first(g, &state);
    require_status(tlc_mpi_gossip_start(h, model), TLC_OK);
    for (int i = 0; i < 2; i++) {
        require_status(tlc_mpi_wait(h), TLC_ERR_ORDER);
        require_status(tlc_mpi_outcome(h, &found), TLC_OK);
        require(found.status == TLC_ERR_ORDER && strstr(found.sentence, "sent step"));
    }
    require_status(tlc_mpi_gossip_hello(h, 1), TLC_ERR_ORDER);
    tlc_mpi_destroy(h);
    free((void *)(uintptr_t)state.data);
}

const mpi_test graph_tests[] = {
    {"edges that are wrong", wrong_edges}, {"weights of edges", weights},   {"graphs that differ", other_graphs},
    {"graphs that are made", made},        {"nodes that fail", nodes_fail}, {NULL, NULL},
};
