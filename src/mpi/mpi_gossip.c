/* SPDX-License-Identifier: MIT
 *
 * Gossip over MPI, on the graph of a communicator.
 */
#include "handle.h"

/* ---- steps ------------------------------------------------------------------------------------------------------- */

static const tlc_message *messages(tlc_mpi *h)
{
    for (size_t i = 0; i < h->peers; i++)
        h->from[i] = tlc_box_message(&h->box[i]);
    return h->from;
}

/* Sends a message to all neighbours, and waits for those of all. */
static tlc_status begin(tlc_mpi *h, tlc_message message, tlc_tag tag, tlc_mpi_state state)
{
    tlc_status status = TLC_OK;

    for (size_t k = 0; k < h->peers && !status; k++)
        status = tlc_mpi_send(h, tlc_mpi_turn(h, k), message, tag);
    for (size_t i = 0; i < h->peers; i++)
        tlc_box_open(&h->box[i], h->peer[i], tag);
    h->state = state;
    return status ? tlc_mpi_break(h, status, NULL) : TLC_OK;
}

static tlc_status advance(tlc_mpi *h, int *moved)
{
    int full;
    tlc_status status = tlc_mpi_collect(h, moved, &full), failed;

    if (status || !full)
        return status;
    *moved = 1;
    if (h->state == TLC_MPI_HELLOS) {
        TLC_MPI_TIMED(h, failed, tlc_gossip_greet(h->object.gossip, messages(h)));
        tlc_mpi_end(h, failed);
        return TLC_OK;
    }
    TLC_MPI_TIMED(h, failed, tlc_gossip_pull(h->object.gossip, messages(h)));
    if (failed)
        tlc_mpi_break(h, failed, NULL);
    else
        tlc_mpi_end(h, TLC_OK);
    return TLC_OK;
}

static tlc_status outcome(const tlc_mpi *h, tlc_outcome *o)
{
    return tlc_gossip_outcome(h->object.gossip, o);
}

static size_t message_bound(const tlc_mpi *h)
{
    return tlc_gossip_message_bound(h->object.gossip);
}

static void free_object(tlc_mpi *h)
{
    tlc_gossip_destroy(h->object.gossip);
}

static const tlc_mpi_role role = {.kind = "gossip",
                                  .push = TLC_GOSSIP_CODEC,
                                  .advance = advance,
                                  .outcome = outcome,
                                  .message_bound = message_bound,
                                  .free = free_object};

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* The neighbours of this rank, and its row of W. */
typedef struct row {
    int *neighbour;
    uint32_t *node; /* the same */
    double *weight; /* and then its own */
    int *in_weight, *out_weight, *target;
    uint64_t *hello; /* bytes of those of neighbours */
    size_t degree;
} row;

static void free_row(const tlc_mail *m, row *r)
{
    tlc_mail_give_back(m, r->neighbour);
    tlc_mail_give_back(m, r->node);
    tlc_mail_give_back(m, r->weight);
    tlc_mail_give_back(m, r->in_weight);
    tlc_mail_give_back(m, r->out_weight);
    tlc_mail_give_back(m, r->target);
    tlc_mail_give_back(m, r->hello);
}

static tlc_status take_row(const tlc_mail *m, row *r, size_t in, size_t out)
{
    r->degree = in;
    r->neighbour = tlc_mail_take(m, in + 1, sizeof *r->neighbour);
    r->node = tlc_mail_take(m, in + 1, sizeof *r->node);
    r->weight = tlc_mail_take(m, in + 1, sizeof *r->weight);
    r->in_weight = tlc_mail_take(m, in + 1, sizeof *r->in_weight);
    r->out_weight = tlc_mail_take(m, out + 1, sizeof *r->out_weight);
    r->target = tlc_mail_take(m, out + 1, sizeof *r->target);
    r->hello = tlc_mail_take(m, in + 1, sizeof *r->hello);
    return r->neighbour && r->node && r->weight && r->in_weight && r->out_weight && r->target && r->hello
               ? TLC_OK
               : TLC_ERR_NOMEM;
}

static size_t count(const int *list, size_t len, int rank)
{
    size_t found = 0;

    for (size_t i = 0; i < len; i++)
        found += list[i] == rank;
    return found;
}

/* Does each edge go both ways, once, with the same weight? */
static tlc_status check_edges(tlc_mpi_making *m, const row *r, size_t out)
{
    for (size_t j = 0; j < out; j++)
        if (!count(r->neighbour, r->degree, r->target[j]))
            return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "an edge goes from this rank to rank %d, and none comes back",
                                       r->target[j]);
    for (size_t i = 0; i < r->degree; i++) {
        const int other = r->neighbour[i];
        const size_t come = count(r->neighbour, r->degree, other), go = count(r->target, out, other);
        size_t j = 0;
        if (!go)
            return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "an edge comes from rank %d to this rank, and none goes back",
                                       other);
        if (come > 1 || go > 1)
            return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "there are %zu edges from rank %d and %zu to it", come, other,
                                       go);
        while (r->target[j] != other)
            j++;
        if (r->in_weight[i] != r->out_weight[j])
            return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "the edge from rank %d has the weight %d, the one to it %d",
                                       other, r->in_weight[i], r->out_weight[j]);
    }
    return TLC_OK;
}

/* Reads the neighbours of this rank and the weights of the edges. */
static tlc_status read_graph(tlc_mpi_making *m, const tlc_mail *memory, row *r, int *weighted)
{
    MPI_Comm comm = m->cfg.comm;
    int topology = MPI_UNDEFINED, in = 0, out = 0;

    if (tlc_mpi_make_local(m, MPI_Topo_test(comm, &topology), "MPI_Topo_test"))
        return m->status;
    if (topology != MPI_DIST_GRAPH)
        return tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "the communicator has no distributed graph");
    if (tlc_mpi_make_local(m, MPI_Dist_graph_neighbors_count(comm, &in, &out, weighted),
                           "MPI_Dist_graph_neighbors_count"))
        return m->status;
    if (take_row(memory, r, (size_t)in, (size_t)out))
        return tlc_mpi_make_refuse(m, TLC_ERR_NOMEM, "%s", tlc_status_string(TLC_ERR_NOMEM));
    if (tlc_mpi_make_local(m,
                           MPI_Dist_graph_neighbors(comm, in, r->neighbour, r->in_weight, out, r->target,
                                                    r->out_weight),
                           "MPI_Dist_graph_neighbors"))
        return m->status;
    for (int i = 0; i < out && !*weighted; i++)
        r->out_weight[i] = 0;
    for (int i = 0; i < in; i++) {
        r->in_weight[i] = *weighted ? r->in_weight[i] : 0;
        r->node[i] = (uint32_t)r->neighbour[i];
    }
    return check_edges(m, r, (size_t)out);
}

/* The row of W: from the weights of edges, or Metropolis weights. All ranks call it: a graph has weights on all of them
 * or on none. */
static tlc_status weigh(tlc_mpi_making *m, row *r, int weighted)
{
    int degree = (int)r->degree;
    double own = 1;

    if (!weighted &&
        tlc_mpi_make_check(m, MPI_Neighbor_allgather(&degree, 1, MPI_INT, r->in_weight, 1, MPI_INT, m->comm),
                           "MPI_Neighbor_allgather"))
        return m->status;
    /* NOLINTBEGIN(clang-analyzer-core.NullDereference): where a rank has no room for its row, no rank gets here */
    const tlc_float_mode mode = tlc_float_enter(); /* weights have the same bits on both sides of an edge */
    for (size_t i = 0; i < r->degree; i++) {
        const int larger = r->in_weight[i] > degree ? r->in_weight[i] : degree;
        r->weight[i] = weighted ? (double)r->in_weight[i] / TLC_MPI_WEIGHT_ONE : 1 / (1 + (double)larger);
        own -= r->weight[i];
    }
    r->weight[r->degree] = own < 0 && own > -1e-6 ? 0 : own; /* rounding */
    tlc_float_leave(mode);
    /* NOLINTEND(clang-analyzer-core.NullDereference) */
    return TLC_OK;
}

/* ---- make -------------------------------------------------------------------------------------------------------- */

/* Room for all hellos, on all ranks: one that lacks it could not receive, and others would wait. */
static tlc_status make_room(tlc_mpi_making *m, tlc_mpi *h, const row *r)
{
    tlc_message hello = {NULL, 0};

    m->status = tlc_gossip_hello(h->object.gossip, 0, &hello);
    const uint64_t len = hello.len;
    if (tlc_mpi_make_check(m, MPI_Neighbor_allgather(&len, 1, MPI_UINT64_T, r->hello, 1, MPI_UINT64_T, m->comm),
                           "MPI_Neighbor_allgather"))
        return m->status;
    tlc_status status = TLC_OK;
    for (size_t i = 0; i < h->peers && !status; i++)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): as in weigh */
        status = r->hello[i] > SIZE_MAX ? TLC_ERR_NOMEM : tlc_box_reserve(&h->mail, &h->box[i], (size_t)r->hello[i]);
    if (status)
        (void)tlc_mpi_make_refuse(m, status, "%s", tlc_status_string(status));
    return tlc_mpi_agree(m);
}

/* Neighbours compare what they have, and all hear what was found. */
static tlc_status greet_all(tlc_mpi_making *m, tlc_mpi *h, const row *r)
{
    tlc_status status = make_room(m, h, r);

    if (status)
        return status;
    m->status = tlc_mpi_gossip_hello(h, 0);
    (void)tlc_mpi_outcome(h, &m->found);
    return h->mail.error ? tlc_mpi_make_tell(m) : tlc_mpi_agree(m);
}

/* Makes a node of a row of W, which all ranks have. */
static tlc_status make_node(tlc_mpi_making *m, tlc_gossip_kind kind, const char *text, const row *r,
                            const float *const *model, tlc_mpi **out)
{
    tlc_mpi *h = NULL;

    tlc_mpi_make_peers(m, r->degree, 0, r->neighbour);
    if (!m->status)
        m->status = tlc_gossip_create(&m->handle->object.gossip, &m->exchange, kind, (uint32_t)m->rank, r->node,
                                      r->weight, r->degree, m->cfg.tensors, m->cfg.count, model);
    tlc_status status = tlc_mpi_make_end(m, text, 1, &h);
    if (status)
        return status;
    status = greet_all(m, h, r);
    if (!status)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): ranks that met all have a place for the handle */
        *out = h;
    if (m->error)
        h->mail.error = m->error;
    if (status)
        tlc_mpi_destroy(h);
    return status;
}

tlc_status tlc_mpi_gossip_create(tlc_mpi **out, const tlc_mpi_config *cfg, tlc_gossip_kind kind,
                                 const float *const *model)
{
    const char *text = kind == TLC_GOSSIP_ECD ? "gossip (ECD)" : "gossip (DCD)";
    tlc_mpi_making m;
    row r = {.degree = 0};
    int weighted = 0;
    tlc_status status = tlc_mpi_make_begin(&m, &role, cfg, NULL);

    if (status)
        return status;
    const tlc_mail memory = {.alloc = m.exchange.alloc};
    m.exchange.workers = (uint32_t)m.ranks;
    if (!out)
        (void)tlc_mpi_make_refuse(&m, TLC_ERR_PARAM, "the place for the handle is NULL");
    if (!m.status)
        m.status = read_graph(&m, &memory, &r, &weighted);
    status = tlc_mpi_make_meet(&m, text);
    if (!status)
        status = weigh(&m, &r, weighted);
    status = status ? tlc_mpi_make_fail(&m, status) : make_node(&m, kind, text, &r, model, out);
    free_row(&memory, &r);
    return status;
}

/* The neighbours of this rank in a graph. */
static tlc_status take_neighbours(const tlc_mail *memory, const tlc_graph *graph, int rank, row *r)
{
    size_t degree = 0;
    uint32_t none;
    double own;
    tlc_status status = tlc_graph_neighbours(graph, (uint32_t)rank, &none, &own, 0, &degree);

    if (status == TLC_OK || status == TLC_ERR_CAPACITY)
        status = take_row(memory, r, degree, degree);
    if (!status)
        status = tlc_graph_neighbours(graph, (uint32_t)rank, r->node, r->weight, degree, &degree);
    for (size_t i = 0; i < degree && !status; i++)
        r->neighbour[i] = (int)r->node[i];
    return status;
}

/* TLC_ERR_PARAM, on all ranks: they do not have the same graph. */
static tlc_status agree_on_graph(tlc_mpi_making *m, const tlc_graph *graph)
{
    uint64_t p, numbers[8];

    memcpy(&p, &graph->p, sizeof p);
    const uint64_t fields[] = {graph->kind, graph->rows, p, graph->seed};
    for (size_t i = 0; i < 4; i++) { /* the largest one of each, and the smallest */
        numbers[i] = fields[i];
        numbers[4 + i] = ~fields[i];
    }
    if (tlc_mpi_make_check(m, MPI_Allreduce(MPI_IN_PLACE, numbers, 8, MPI_UINT64_T, MPI_MAX, m->comm), "MPI_Allreduce"))
        return m->status;
    for (size_t i = 0; i < 4; i++)
        if (numbers[i] != ~numbers[4 + i])
            return TLC_ERR_PARAM;
    return TLC_OK;
}

tlc_status tlc_mpi_graph_create(MPI_Comm comm, const tlc_graph *graph, MPI_Comm *out)
{
    tlc_graph ours = {.kind = TLC_GRAPH_RING};
    int *volatile unweighted = MPI_UNWEIGHTED; /* volatile: gcc would take it for the address of an array */
    const tlc_mail memory = {.alloc = {NULL, NULL, NULL}};
    tlc_mpi_config cfg;
    tlc_mpi_making m;
    MPI_Comm made = MPI_COMM_NULL;
    row r = {.degree = 0};

    (void)tlc_mpi_config_init(&cfg, sizeof cfg, comm);
    tlc_status status = tlc_mpi_make_import(&m, &cfg, NULL);
    if (status)
        return status;
    m.status = graph && out && tlc_import(&ours, sizeof ours, graph) ? TLC_OK : TLC_ERR_PARAM;
    ours.struct_size = sizeof ours;
    ours.nodes = (uint32_t)m.ranks;
    if (!m.status)
        m.status = take_neighbours(&memory, &ours, m.rank, &r);
    status = tlc_mpi_make_meet(&m, "the graph of a communicator");
    if (!status)
        status = agree_on_graph(&m, &ours);
    if (!status) {
        const int degree = (int)r.degree;
        status = tlc_mpi_make_check(&m,
                                    MPI_Dist_graph_create_adjacent(m.comm, degree, r.neighbour, unweighted, degree,
                                                                   r.neighbour, unweighted, MPI_INFO_NULL, 0, &made),
                                    "MPI_Dist_graph_create_adjacent");
    }
    if (!status)
        /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): ranks that met all have a place for it */
        *out = made;
    if (!m.error)
        (void)MPI_Comm_free(&m.comm);
    free_row(&memory, &r);
    return status;
}

/* ---- start ------------------------------------------------------------------------------------------------------- */

tlc_status tlc_mpi_gossip_start(tlc_mpi *h, const float *const *moved)
{
    tlc_status status = tlc_mpi_may_start(h, &role, "tlc_mpi_gossip_start");
    tlc_message push = {NULL, 0};

    if (!status)
        TLC_MPI_TIMED(h, status, tlc_gossip_push(h->object.gossip, moved, &push));
    return status ? status : begin(h, push, TLC_TAG_PUSH, TLC_MPI_ANSWERS);
}

tlc_status tlc_mpi_gossip_hello(tlc_mpi *h, int full)
{
    tlc_status status = tlc_mpi_may_start(h, &role, "tlc_mpi_gossip_hello");
    tlc_message hello = {NULL, 0};

    if (!status)
        TLC_MPI_TIMED(h, status, tlc_gossip_hello(h->object.gossip, full, &hello));
    if (!status)
        status = begin(h, hello, TLC_TAG_HELLO, TLC_MPI_HELLOS);
    return status ? status : tlc_mpi_wait(h);
}

tlc_gossip *tlc_mpi_gossip_object(tlc_mpi *h)
{
    return h && h->role == &role ? h->object.gossip : NULL;
}
