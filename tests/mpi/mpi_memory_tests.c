/* SPDX-License-Identifier: MIT
 *
 * Memory of the C library, where the caller gives no allocator: it may end anywhere, and all of it is given back.
 */
#include "../support/no_memory.h"
#include "mpi_scene.h"
#include "still.h"

enum { MOST_RANKS = 3 }; /* more add nothing but time */

typedef enum kind { ALLREDUCE, GATHER, OWNERS, SERVERS, BOTH, GOSSIP, GRAPH, KINDS } kind;

static const tlc_graph ring = {.struct_size = sizeof ring, .kind = TLC_GRAPH_RING};

typedef struct made {
    scene s;
    kind what;
    tlc_mpi *h, *server;
    MPI_Comm graph, comm; /* of gossip; what GRAPH makes */
} made;

static void set(made *m, kind what)
{
    *m = (made){.what = what, .graph = MPI_COMM_NULL, .comm = MPI_COMM_NULL};
    scene_set(&m->s);
    m->s.exchange.alloc = (tlc_allocator){NULL, NULL, NULL};
    m->s.exchange.split_n = 1;
    m->s.exchange.gather = what == GATHER;
    m->s.exchange.servers = what == SERVERS ? 1 : what == BOTH ? (uint32_t)ranks : 0;
    m->s.exchange.workers = (uint32_t)(what == SERVERS ? ranks - 1 : ranks);
    if (what == GOSSIP)
        require_status(tlc_mpi_graph_create(MPI_COMM_WORLD, &ring, &m->graph), TLC_OK);
    m->s.cfg.comm = what == GOSSIP ? m->graph : MPI_COMM_WORLD;
}

static tlc_status make(made *m)
{
    const float *const model[] = {m->s.values, m->s.values};
    tlc_status status;

    switch (m->what) {
    case OWNERS: return tlc_mpi_owners_create(&m->h, &m->s.cfg, keep_still, NULL);
    case SERVERS:
        return rank == ranks - 1 ? tlc_mpi_server_create(&m->server, &m->s.cfg, NULL)
                                 : tlc_mpi_worker_create(&m->h, &m->s.cfg);
    case BOTH:
        status = tlc_mpi_worker_create(&m->h, &m->s.cfg);
        return status ? status : tlc_mpi_server_create(&m->server, &m->s.cfg, m->h);
    case GOSSIP: return tlc_mpi_gossip_create(&m->h, &m->s.cfg, TLC_GOSSIP_DCD, model);
    case GRAPH: return tlc_mpi_graph_create(MPI_COMM_WORLD, &ring, &m->comm);
    default: return tlc_mpi_allreduce_create(&m->h, &m->s.cfg);
    }
}

/* A step of what was made, and its end. */
static void step(made *m)
{
    const float *const model[] = {m->s.values, m->s.values};
    const int serves = m->what == BOTH;

    if (m->what == GOSSIP) {
        require_status(tlc_mpi_gossip_start(m->h, model), TLC_OK);
        require_status(tlc_mpi_wait(m->h), TLC_OK);
        require_status(tlc_mpi_gossip_hello(m->h, 1), TLC_OK);
    } else if (m->what == SERVERS && m->server)
        require_status(tlc_mpi_server_run(m->server, keep_model, NULL), TLC_OK);
    else if (m->what == SERVERS || serves) {
        require_status(tlc_mpi_worker_start(m->h, m->s.grads, 1, m->s.out), TLC_OK);
        require_status(serves ? tlc_mpi_server_start(m->server) : TLC_OK, TLC_OK);
        require_status(serves ? tlc_mpi_wait(m->server) : TLC_OK, TLC_OK);
        require_status(serves ? tlc_mpi_server_answer(m->server, NULL) : TLC_OK, TLC_OK);
        require_status(tlc_mpi_wait(m->h), TLC_OK);
    } else if (m->h)
        require_status(tlc_mpi_allreduce(m->h, m->s.grads, m->s.out), TLC_OK);
}

/* The last rank has memory for so many allocations. Either all ranks make something, or none. Returns the status. */
static tlc_status with(kind what, size_t allocations)
{
    int statuses[2];
    made m;

    set(&m, what);
    ration(rank == ranks - 1 ? allocations : SIZE_MAX);
    const tlc_status status = make(&m);
    feed();
    require(status == TLC_OK || status == TLC_ERR_NOMEM);
    require((m.comm != MPI_COMM_NULL) == (what == GRAPH && !status));
    require(what == BOTH || ((m.h || m.server) == (what != GRAPH && !status)));
    statuses[0] = (int)status;
    statuses[1] = -statuses[0];
    MPI_Allreduce(MPI_IN_PLACE, statuses, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    require(statuses[0] == -statuses[1]);
    ration(SIZE_MAX);
    if (!status)
        step(&m);
    tlc_mpi_destroy(m.h);
    tlc_mpi_destroy(m.server);
    feed();
    require(!memory.live);
    if (m.comm != MPI_COMM_NULL)
        MPI_Comm_free(&m.comm);
    if (m.graph != MPI_COMM_NULL)
        MPI_Comm_free(&m.graph);
    return status;
}

static void ends(void)
{
    for (kind what = ALLREDUCE; what < KINDS && ranks <= MOST_RANKS; what++) {
        size_t allocations = 0;
        at.n = (size_t)what;
        while ((what != SERVERS || ranks > 1) && with(what, allocations))
            at.i = ++allocations;
        require(allocations > (what == GRAPH ? 3 : 12) || (what == SERVERS && ranks == 1));
    }
}

const mpi_test memory_tests[] = {
    {"memory of the C library", ends},
    {NULL, NULL},
};
