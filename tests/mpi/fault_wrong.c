/* SPDX-License-Identifier: MIT
 *
 * Each call of MPI fails on each rank while a rank is wrong.
 */
#include "fault_scene.h"

/* What is wrong on one rank, of which all ranks hear if MPI does not fail. */
typedef enum mistake {
    NO_EXCHANGE,
    OTHER_CHUNK,
    WRONG_CODEC, /* of a tensor, which is not at fault when MPI fails */
    OTHER_FUNCTION,
    NO_PLACE,
    WRONG_SERVER,
    OTHER_GRAPH,
    NO_GRAPH,
    MISTAKES
} mistake;
static mistake wrong_what;
static int wrong_rank;
static tlc_outcome heard[RANKS];

static tlc_status no_update(void *arg, const tlc_allreduce *a, float *const *delta)
{
    (void)arg;
    (void)a;
    (void)delta;
    return TLC_OK;
}

static tlc_status make_wrong(scene *s, int is_wrong)
{
    tlc_mpi *h = NULL, *server = NULL;
    tlc_status status;

    if (is_wrong && wrong_what == NO_EXCHANGE)
        s->cfg.exchange = NULL;
    if (is_wrong && wrong_what == OTHER_CHUNK)
        s->cfg.chunk = 17;
    if (is_wrong && wrong_what == WRONG_CODEC)
        s->tensors[1].push = "3cl";
    if (is_wrong && wrong_what == OTHER_FUNCTION)
        return tlc_mpi_owners_create(&h, &s->cfg, no_update, NULL);
    if (wrong_what != WRONG_SERVER)
        return tlc_mpi_allreduce_create(is_wrong && wrong_what == NO_PLACE ? NULL : &h, &s->cfg);
    s->exchange.workers = RANKS;
    s->exchange.servers = 1;
    status = tlc_mpi_worker_create(&h, &s->cfg);
    if (!status && s->rank == RANKS - 1) {
        s->exchange.isa = (tlc_isa)99;
        status = tlc_mpi_server_create(&server, &s->cfg, h);
        require(status != TLC_ERR_PARAM || tlc_mpi_wait(h) == status); /* the worker is of no use any more */
    }
    tlc_mpi_destroy(h);
    return status;
}

/* Graphs have a status alone. */
static tlc_status make_wrong_graph(int is_wrong)
{
    tlc_graph graph = {.struct_size = sizeof graph, .kind = TLC_GRAPH_RING};
    MPI_Comm comm = MPI_COMM_NULL;

    graph.seed = (uint64_t)is_wrong;
    const tlc_status status = tlc_mpi_graph_create(fake_world(), is_wrong && wrong_what == NO_GRAPH ? NULL : &graph,
                                                   &comm);
    require(comm == MPI_COMM_NULL);
    return status;
}

static void play_wrong(int rank, int ranks)
{
    const int is_wrong = rank == wrong_rank;
    scene s;

    (void)ranks;
    scene_set(&s, rank, 0, 0);
    const int is_graph = wrong_what >= OTHER_GRAPH;
    tlc_status status = is_graph ? make_wrong_graph(is_wrong) : make_wrong(&s, is_wrong);
    require(status == TLC_ERR_PARAM || status == TLC_ERR_TRANSPORT);
    require(!fake_was_told() || status == TLC_ERR_TRANSPORT);
    if (is_graph)
        s.found.status = status;
    require(s.found.status == status);
    if (!is_graph && status == TLC_ERR_TRANSPORT)
        require_told(&s.found, rank);
    heard[rank] = s.found;
    close_scene(&s);
}

/* A rank that is wrong, or another one, on which MPI fails: it says that. */
void test_wrong(void)
{
    static const char *const calls[] = {"MPI_Comm_rank", "MPI_Comm_size", "MPI_Comm_dup", "MPI_Bcast",
                                        "MPI_Allreduce", "MPI_Allreduce", "MPI_Bcast",    "MPI_Bcast"};

    at.note = "wrong";
    for (wrong_what = NO_EXCHANGE; wrong_what < MISTAKES; wrong_what++)
        for (int i = 0; i < RANKS * RANKS; i++) {
            const int failed = i / RANKS;
            wrong_rank = i % RANKS;
            at.n = (size_t)wrong_what;
            at.i = (size_t)i;
            const int count = fake_run(RANKS, (fake_fault){.rank = failed}, play_wrong);
            for (int rank = 0; rank < RANKS; rank++)
                require(heard[rank].status == TLC_ERR_PARAM && !strcmp(heard[rank].sentence, heard[0].sentence));
            for (int call = 1; call <= count; call++) {
                const fake_fault fault = {failed, call, (fake_says)(call % 3), 0};
                require(fake_run(RANKS, fault, play_wrong) == -1);
                if (wrong_what == NO_EXCHANGE && call <= (int)COUNT(calls)) {
                    require(strstr(heard[failed].sentence, calls[call - 1]));
                    require((heard[failed].rank == TLC_NOBODY) == (call == 1)); /* it does not know its rank */
                    require(call > 1 || strncmp(heard[failed].sentence, "rank ", 5) != 0);
                }
            }
        }
}
