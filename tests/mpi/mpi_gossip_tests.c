/* SPDX-License-Identifier: MIT
 *
 * Gossip over MPI gives the bits that the same nodes give in one process, on the graphs of communicators.
 */
#include "../support/gossip_run.h"
#include "mpi_run.h"
#include <math.h>

enum { STEPS = 25, BAD_STEP = 7, LOST_STEP = 12 };

static tlc_mpi *open_handle(network *net, MPI_Comm comm)
{
    tlc_mpi_config cfg = mpi_config(&net->cfg, net->tensors, NET_TENSORS);
    tlc_mpi *h = NULL;

    cfg.comm = comm;
    require_status(tlc_mpi_gossip_create(&h, &cfg, net->kind, network_start(net)), TLC_OK);
    return h;
}

/* Nodes have the same state, also after a step in which one stays where it is. */
static void play(tlc_gossip_kind kind, const tlc_graph *graph)
{
    const tlc_exchange_config cfg = network_config(kind, (uint32_t)ranks);
    network net;
    MPI_Comm comm;

    network_open(&net, &cfg, kind, graph);
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, graph, &comm), TLC_OK);
    tlc_mpi *h = open_handle(&net, comm);
    MPI_Comm_free(&comm);
    tlc_gossip *g = tlc_mpi_gossip_object(h);
    for (uint64_t step = 1; step <= STEPS; step++) {
        const uint32_t odd = (uint32_t)(step % net.nodes);
        network_move(&net, step);
        if (step == BAD_STEP) {
            const float nan = NAN;
            memcpy(net.node[odd].moved[CONV], &nan, sizeof nan);
        }
        require_status(tlc_mpi_gossip_start(h, (const float *const *)net.node[rank].moved), TLC_OK);
        network_push(&net);
        network_pull(&net);
        require_status(tlc_mpi_wait(h), net.node[rank].pulled);
        if (step != LOST_STEP)
            continue;
        for (size_t i = 0; i < net.node[rank].degree; i++) /* a replica is gone, and is sent whole */
            require_status(tlc_gossip_lose(g, i), TLC_OK);
        require_status(tlc_mpi_gossip_hello(h, 1), TLC_OK);
    }
    tlc_message theirs = node_save(&net, (uint32_t)rank);
    size_t size = tlc_gossip_state_size(g), written = 0;
    void *ours = malloc(size);
    require_status(tlc_gossip_state_save(g, ours, size, &written), TLC_OK);
    require(blob_same((tlc_message){ours, written}, theirs));
    free(ours);
    blob_free(&theirs);
    tlc_mpi_destroy(h);
    network_close(&net);
}

static void graphs(void)
{
    const tlc_graph_kind kinds[] = {TLC_GRAPH_RING, TLC_GRAPH_TORUS, TLC_GRAPH_COMPLETE, TLC_GRAPH_RANDOM};

    FOR_EACH_GOSSIP(kind) {
        for (size_t i = 0; i < COUNT(kinds); i++) {
            const tlc_graph graph = {.struct_size = sizeof graph,
                                     .kind = kinds[i],
                                     .nodes = (uint32_t)ranks,
                                     .p = 0.3,
                                     .seed = 5};
            play(kind, &graph);
        }
    }
}

/* A communicator in which all ranks are neighbours with these weights. */
static MPI_Comm weighted(int weight_of_rank_0, int weight)
{
    int *neighbours = calloc((size_t)ranks, sizeof *neighbours), *weights = calloc((size_t)ranks, sizeof *weights);
    int *volatile none = MPI_WEIGHTS_EMPTY;
    int degree = 0;
    MPI_Comm comm;

    require(neighbours && weights);
    for (int i = 0; i < ranks; i++)
        if (i != rank) {
            neighbours[degree] = i;
            weights[degree++] = rank == 0 ? weight_of_rank_0 : weight;
        }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, neighbours, degree ? weights : none, degree, neighbours,
                                   degree ? weights : none, MPI_INFO_NULL, 0, &comm);
    free(neighbours);
    free(weights);
    return comm;
}

/* A ring whose edges have, from each rank, its own weight. */
static MPI_Comm directed(void)
{
    const int other[] = {(rank + 1) % ranks, (rank + ranks - 1) % ranks}, sides = ranks == 2 ? 1 : 2;
    const int one = TLC_MPI_WEIGHT_ONE / 8, come[] = {one + other[0], one + other[1]}, go[] = {one + rank, one + rank};
    MPI_Comm comm;

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, sides, other, come, sides, other, go, MPI_INFO_NULL, 0, &comm);
    return comm;
}

/* One tensor of two values, which all start with. Returns what create does, after all have the same sentence. */
static tlc_status try(MPI_Comm comm, float second, tlc_mpi **h, tlc_outcome *found)
{
    const tlc_tensor tensor = {.struct_size = sizeof tensor, .name = "w", .n = 2, .only = TLC_NOBODY};
    const float values[] = {1, second}, *const model[] = {values};
    tlc_exchange_config cfg;

    require_status(tlc_exchange_config_init(&cfg, sizeof cfg), TLC_OK);
    cfg.push = "raw";
    tlc_mpi_config job = mpi_config(&cfg, &tensor, 1);
    *found = (tlc_outcome){.struct_size = sizeof *found};
    job.comm = comm;
    job.outcome = found;
    tlc_status status = tlc_mpi_gossip_create(h, &job, TLC_GOSSIP_DCD, model);
    require_same_text(found->sentence);
    require(!status || found->tensor == TLC_ALL);
    return status;
}

/* With raw, a step of DCD is the mean that W makes. */
static void weights(void)
{
    MPI_Comm comm = weighted(TLC_MPI_WEIGHT_ONE / 8, TLC_MPI_WEIGHT_ONE / 8);
    const float values[] = {(float)rank, -1}, *const moved[] = {values};
    tlc_outcome found;
    tlc_mpi *h = NULL;
    float sum = 0;

    require_status(try(comm, 2, &h, &found), TLC_OK);
    require_status(tlc_mpi_gossip_start(h, moved), TLC_OK);
    require_status(tlc_mpi_wait(h), TLC_OK);
    for (int i = 0; i < ranks; i++)
        sum += (float)(i - rank) / 8;
    require(!tlc_mpi_allreduce_object(h) && !tlc_mpi_worker_object(h) && !tlc_mpi_server_object(h));
    require(tlc_gossip_mean(tlc_mpi_gossip_object(h), 0)[0] == (float)rank + sum);
    tlc_mpi_destroy(h);
    MPI_Comm_free(&comm);
}

/* What neighbours find is told to all. */
static void refusals(void)
{
    tlc_outcome found;
    tlc_mpi *h = NULL;

    require_status(try(MPI_COMM_WORLD, 2, &h, &found), TLC_ERR_PARAM);
    require(strcmp(found.sentence, "rank 0: the communicator has no distributed graph") == 0);
    if (ranks < 2)
        return;
    MPI_Comm comm = weighted(TLC_MPI_WEIGHT_ONE / 16, TLC_MPI_WEIGHT_ONE / 8);
    require_status(try(comm, 2, &h, &found), TLC_ERR_PARAM);
    require(strcmp(found.sentence, "rank 0: node 1 has another weight for the edge to this node") == 0);
    MPI_Comm_free(&comm);
    comm = weighted(TLC_MPI_WEIGHT_ONE / 8, TLC_MPI_WEIGHT_ONE / 8);
    require_status(try(comm, rank == 1 ? 3 : 2, &h, &found), TLC_ERR_PARAM);
    require(strncmp(found.sentence, "rank 0: ", 8) == 0 && strstr(found.sentence, "model"));
    MPI_Comm_free(&comm);
    int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
    int *volatile unweighted = MPI_UNWEIGHTED; /* volatile: gcc would take it for the address of an array */
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, unweighted, 1, &next, unweighted, MPI_INFO_NULL, 0, &comm);
    require_status(try(comm, 2, &h, &found), ranks == 2 ? TLC_OK : TLC_ERR_PARAM);
    require(ranks == 2 ||
            strcmp(found.sentence, "rank 0: an edge goes from this rank to rank 1, and none comes back") == 0);
    MPI_Comm_free(&comm);
    tlc_mpi_destroy(h);
    comm = directed();
    require_status(try(comm, 2, &h, &found), TLC_ERR_PARAM);
    require(strcmp(found.sentence, "rank 0: the edge from rank 1 has the weight 134217729, the one to it 134217728") ==
            0);
    MPI_Comm_free(&comm);
    for (int times = 1; times <= 2; times++) { /* an edge that comes twice; in the first graph nothing is wrong */
        const int other = 1 - rank, twice[] = {other, other}, in = rank < 2 ? times : 0;
        MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, twice, unweighted, in > 0, twice, unweighted, MPI_INFO_NULL,
                                       0, &comm);
        h = NULL;
        require_status(try(comm, 2, &h, &found), times > 1 ? TLC_ERR_PARAM : TLC_OK);
        require(times == 1 || strcmp(found.sentence, "rank 0: there are 2 edges from rank 1 and 1 to it") == 0);
        MPI_Comm_free(&comm);
        tlc_mpi_destroy(h);
    }
}

/* Only the second edge of rank 0 goes one way. */
static void one_way(void)
{
    const int others[] = {1, 2}, first[] = {0};
    const int in = rank == 0 || rank == 1 || rank == 2, out = rank == 0 ? 2 : rank == 1;
    int *volatile unweighted = MPI_UNWEIGHTED; /* volatile: gcc would take it for the address of an array */
    tlc_outcome found;
    tlc_mpi *h = NULL;
    MPI_Comm comm;

    if (ranks < 3)
        return;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, rank ? first : others, unweighted, out, rank ? first : others,
                                   unweighted, MPI_INFO_NULL, 0, &comm);
    require_status(try(comm, 2, &h, &found), TLC_ERR_PARAM);
    require(strcmp(found.sentence, "rank 0: an edge goes from this rank to rank 2, and none comes back") == 0);
    MPI_Comm_free(&comm);
}

/* A graph that one rank cannot make, or that is not the same everywhere: no rank is left waiting. */
static void bad_graphs(void)
{
    const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};
    tlc_graph graph = ring;
    MPI_Comm comm = MPI_COMM_NULL;

    graph.kind = rank == ranks - 1 ? (tlc_graph_kind)99 : TLC_GRAPH_RING;
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &graph, &comm), TLC_ERR_PARAM);
    graph = ring;
    graph.kind = rank == 0 ? TLC_GRAPH_TORUS : TLC_GRAPH_RING;
    graph.rows = rank == 0 ? (uint32_t)ranks + 1 : 0;
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &graph, &comm), TLC_ERR_PARAM);
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, rank == 0 ? NULL : &ring, &comm), TLC_ERR_PARAM);
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &ring, rank == ranks - 1 ? NULL : &comm), TLC_ERR_PARAM);
    graph = ring;
    graph.kind = TLC_GRAPH_RANDOM;
    graph.p = 0.5;
    graph.seed = rank == 0;
    require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &graph, &comm), ranks > 1 ? TLC_ERR_PARAM : TLC_OK);
    if (ranks == 1)
        MPI_Comm_free(&comm);
    require(comm == MPI_COMM_NULL);
    require_status(tlc_mpi_graph_create(MPI_COMM_NULL, &ring, &comm), TLC_ERR_PARAM);
}

const mpi_test gossip_tests[] = {
    {"gossip on four graphs", graphs},
    {"weights of a graph", weights},
    {"graphs and models that do not fit", refusals},
    {"an edge that goes one way", one_way},
    {"graphs that cannot be made", bad_graphs},
    {NULL, NULL},
};
