/* SPDX-License-Identifier: MIT
 *
 * Handles are made by all ranks together, or by none: from what the caller gave.
 */
#include "handle.h"

/* ---- configuration ----------------------------------------------------------------------------------------------- */

tlc_status tlc_mpi_config_init(tlc_mpi_config *cfg, size_t struct_size, MPI_Comm comm)
{
    const tlc_mpi_config defaults = {.comm = comm, .chunk = (size_t)1 << 30};

    return tlc_init(cfg, struct_size, &defaults, sizeof defaults);
}

tlc_status tlc_mpi_config_init_fortran(tlc_mpi_config *cfg, size_t struct_size, MPI_Fint comm)
{
    return tlc_mpi_config_init(cfg, struct_size, MPI_Comm_f2c(comm));
}

/* Takes over what the caller gave. The object checks the rest. */
static void import_config(tlc_mpi_making *m)
{
    const tlc_mpi_config *c = &m->cfg;

    (void)tlc_exchange_config_init(&m->exchange, sizeof m->exchange);
    if (!c->exchange)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "exchange is NULL");
    else if (c->count && !c->tensors)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "tensors is NULL, but their count is %zu", c->count);
    else if (!c->chunk || c->chunk > INT_MAX)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "chunk is %zu; it is 1 to %d", c->chunk, INT_MAX);
    else if (!tlc_import(&m->exchange, sizeof m->exchange, c->exchange))
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM,
                                  "struct_size of exchange is %zu; it is at least %zu, and what follows %zu bytes is "
                                  "0",
                                  c->exchange->struct_size, sizeof(size_t), sizeof m->exchange);
    else if (!m->exchange.alloc.alloc != !m->exchange.alloc.free) {
        const char *given = m->exchange.alloc.alloc ? "alloc" : "free";
        m->exchange.alloc = (tlc_allocator){NULL, NULL, NULL}; /* for the handle, until it is freed again */
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "of alloc, only %s is given", given);
    } else if (c->count && c->tensors->struct_size < sizeof c->tensors->struct_size)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "struct_size of tensors is %zu; it is at least %zu",
                                  c->tensors->struct_size, sizeof(size_t));
    m->exchange.struct_size = sizeof m->exchange;
    m->exchange.outcome = &m->found;
}

/* ---- make -------------------------------------------------------------------------------------------------------- */

static void no_memory(tlc_mpi_making *m)
{
    (void)tlc_mpi_make_refuse(m, TLC_ERR_NOMEM, "%s", tlc_status_string(TLC_ERR_NOMEM));
}

/* Copies the names of tensors. */
static void take_names(tlc_mpi_making *m, tlc_mpi *h)
{
    size_t bytes = 0;

    for (size_t i = 0; i < h->count; i++) {
        const char *name = tlc_mpi_tensor_at(&m->cfg, i).name;
        bytes += name ? strlen(name) + 1 : 1;
    }
    h->name = tlc_mail_take(&h->mail, 1, (h->count + 1) * sizeof *h->name + bytes);
    if (!h->name) {
        no_memory(m);
        return;
    }
    char *at = (char *)(h->name + h->count + 1);
    for (size_t i = 0; i < h->count; i++) {
        const char *name = tlc_mpi_tensor_at(&m->cfg, i).name;
        size_t len = name ? strlen(name) : 0;
        h->name[i] = len ? memcpy(at, name, len) : at; /* the rest is 0 */
        at += len + 1;
    }
}

tlc_status tlc_mpi_make_import(tlc_mpi_making *m, const tlc_mpi_config *cfg, tlc_mpi *pair)
{
    *m = (tlc_mpi_making){.comm = MPI_COMM_NULL, .rank = -1, .pair = pair};
    m->found = (tlc_outcome){.struct_size = sizeof m->found, .tensor = TLC_ALL};
    (void)tlc_mpi_config_init(&m->cfg, sizeof m->cfg, MPI_COMM_NULL);
    if (!cfg || !tlc_import(&m->cfg, sizeof m->cfg, cfg))
        return tlc_mpi_make_alone(cfg, "struct_size of the configuration is not one of this library");
    if (m->cfg.comm == MPI_COMM_NULL)
        return tlc_mpi_make_alone(cfg, "comm is MPI_COMM_NULL");
    if (pair)
        m->comm = m->cfg.comm = pair->mail.comm;
    if (!tlc_mpi_make_check(m, MPI_Comm_rank(m->cfg.comm, &m->rank), "MPI_Comm_rank"))
        (void)tlc_mpi_make_check(m, MPI_Comm_size(m->cfg.comm, &m->ranks), "MPI_Comm_size");
    return m->status;
}

tlc_status tlc_mpi_make_begin(tlc_mpi_making *m, const tlc_mpi_role *role, const tlc_mpi_config *cfg, tlc_mpi *pair)
{
    tlc_status status = tlc_mpi_make_import(m, cfg, pair);

    if (status)
        return status;
    import_config(m);
    if (!m->exchange.push)
        m->exchange.push = role->push;
    const tlc_mail mail = {.comm = m->comm, .rank = m->rank, .chunk = m->cfg.chunk, .alloc = m->exchange.alloc};
    tlc_mpi *h = m->handle = tlc_mail_take(&mail, 1, sizeof *h);
    if (!h) {
        no_memory(m);
        return TLC_OK;
    }
    h->role = role;
    h->mail = mail;
    h->pair = pair;
    if (m->status)
        return TLC_OK;
    h->count = m->cfg.count;
    h->out = tlc_mail_take(&mail, h->count + 1, sizeof *h->out);
    h->n = tlc_mail_take(&mail, h->count + 1, sizeof *h->n);
    if (!h->out || !h->n) {
        no_memory(m);
        return TLC_OK;
    }
    for (size_t i = 0; i < h->count; i++)
        h->n[i] = tlc_mpi_tensor_at(&m->cfg, i).n;
    take_names(m, h);
    return TLC_OK;
}

void tlc_mpi_make_peers(tlc_mpi_making *m, size_t peers, int first, const int *list)
{
    tlc_mpi *h = m->handle;

    if (m->status)
        return;
    h->peer = tlc_mail_take(&h->mail, peers + 1, sizeof *h->peer);
    h->box = tlc_mail_take(&h->mail, peers + 1, sizeof *h->box);
    h->from = tlc_mail_take(&h->mail, peers + 1, sizeof *h->from);
    h->to = tlc_mail_take(&h->mail, peers + 1, sizeof *h->to);
    h->over = tlc_mail_take(&h->mail, peers + 1, 1);
    if (!h->peer || !h->box || !h->from || !h->to || !h->over) {
        no_memory(m);
        return;
    }
    h->peers = peers;
    for (size_t i = 0; i < peers; i++)
        h->peer[i] = list ? list[i] : first + (int)i;
}

tlc_status tlc_mpi_make_fail(tlc_mpi_making *m, tlc_status status)
{
    if (m->pair) { /* the servers that its worker would take leave of are not there */
        m->pair->leaving = 1;
        m->pair->mail.error = m->error;
        memset(m->pair->over, 1, m->pair->peers);
        tlc_mpi_break(m->pair, status, "the server of this rank was not made");
    } else if (!m->error && m->comm != MPI_COMM_NULL)
        (void)MPI_Comm_free(&m->comm);
    if (m->handle)
        tlc_mpi_free(m->handle);
    return status;
}

/* Room to send pushes and answers of a step of up to `len` bytes, or pushes and what a rank says when it leaves. */
static tlc_status reserve(tlc_mpi *h, size_t len)
{
    tlc_status status = tlc_mail_reserve(&h->mail, &h->sends, 2 * h->peers, len);

    for (uint32_t i = 0; i < h->keep && !status; i++)
        status = tlc_mail_reserve(&h->mail, &h->answers[i], h->peers, len);
    return status;
}

/* The room that steps need to send, on all ranks: one that lacked it in a step could send nothing, and others would
 * wait. The largest message that a rank takes is the largest one that others send. */
static tlc_status make_room(tlc_mpi_making *m)
{
    uint64_t len = m->handle->role->message_bound(m->handle);
    const uint64_t other = m->pair ? m->pair->role->message_bound(m->pair) : 0;

    if (other > len)
        len = other;
    if (tlc_mpi_make_check(m, MPI_Allreduce(MPI_IN_PLACE, &len, 1, MPI_UINT64_T, MPI_MAX, m->comm), "MPI_Allreduce"))
        return m->status;
    const size_t most = len < SIZE_MAX ? (size_t)len : SIZE_MAX;
    if (reserve(m->handle, most) || (m->pair && reserve(m->pair, most)))
        no_memory(m);
    return tlc_mpi_agree(m);
}

tlc_status tlc_mpi_make_end(tlc_mpi_making *m, const char *kind, int times, tlc_mpi **out)
{
    tlc_status status = TLC_OK;

    if (!out)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "the place for the handle is NULL");
    for (int i = 0; i < times && !status; i++) {
        status = tlc_mpi_make_meet(m, kind);
        if (!status)
            status = tlc_mpi_make_compare(m);
        if (!status)
            status = make_room(m);
    }
    if (status || !out)
        return tlc_mpi_make_fail(m, status);
    *out = m->handle;
    if (m->pair)
        m->pair->pair = m->handle;
    return TLC_OK;
}
