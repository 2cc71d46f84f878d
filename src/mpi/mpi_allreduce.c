/* SPDX-License-Identifier: MIT
 *
 * All-reduce over MPI. A step: pushes to the ranks that own parts, or with gather to all; from the pushes of all an
 * owner makes its answer, which goes to all.
 */
#include "handle.h"
#include <math.h>

static size_t own_index(const tlc_mpi *h)
{
    return (size_t)h->mail.rank;
}

/* Opens boxes for messages of those ranks that send some. A rank owns parts if its push has bytes. */
static void open_boxes(tlc_mpi *h, tlc_tag tag, int of_owners)
{
    for (size_t i = 0; i < h->peers; i++)
        if (i != own_index(h) && (!of_owners || h->to[i].len))
            tlc_box_open(&h->box[i], h->peer[i], tag);
}

/* What came, and `own` of this rank. Nothing comes from ranks whose messages the object does not read. */
static const tlc_message *messages(tlc_mpi *h, tlc_message own)
{
    for (size_t i = 0; i < h->peers; i++)
        h->from[i] = tlc_box_message(&h->box[i]);
    h->from[own_index(h)] = own;
    return h->from;
}

static size_t part_values(const tlc_mpi *h, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    return tlc_allreduce_part(h->object.allreduce, i, &part) ? 0 : part.n;
}

/* The optimizer of this rank's parts makes deltas of their means. If the step failed, the answer says so. */
static tlc_status answer_with_deltas(tlc_mpi *h, const tlc_message *from)
{
    tlc_allreduce *a = h->object.allreduce;
    tlc_status status;

    TLC_MPI_TIMED(h, status, tlc_allreduce_average(a, from));
    if (status && status != TLC_ERR_STEP)
        return status;
    if (!status && h->update(h->update_arg, a, h->delta))
        h->delta[0][0] = NAN; /* fails the step on all ranks. Owners have parts, and parts have values */
    const float *const *delta = status ? NULL : (const float *const *)h->delta;
    TLC_MPI_TIMED(h, status, tlc_allreduce_answer(a, delta, &h->answer));
    return status;
}

/* An owner averages what came, and answers all. */
static tlc_status reduce(tlc_mpi *h)
{
    const tlc_message *from = messages(h, h->to[own_index(h)]);
    tlc_status status;

    if (h->update)
        status = answer_with_deltas(h, from);
    else
        TLC_MPI_TIMED(h, status, tlc_allreduce_reduce(h->object.allreduce, from, &h->answer));
    for (size_t k = 0; k < h->peers && !status; k++) {
        const size_t to = tlc_mpi_turn(h, k);
        if (to != own_index(h))
            status = tlc_mpi_send(h, to, h->answer, TLC_TAG_ANSWER);
    }
    open_boxes(h, TLC_TAG_ANSWER, 1);
    h->state = TLC_MPI_ANSWERS;
    return status ? tlc_mpi_break(h, status, NULL) : TLC_OK;
}

static void pull(tlc_mpi *h)
{
    tlc_message own = h->gather ? h->to[own_index(h)] : h->answer;
    tlc_status status;

    TLC_MPI_TIMED(h, status, tlc_allreduce_pull(h->object.allreduce, messages(h, own), h->out));
    if (status && status != TLC_ERR_STEP)
        tlc_mpi_break(h, status, NULL);
    else
        tlc_mpi_end(h, status);
}

static tlc_status advance(tlc_mpi *h, int *moved)
{
    int full;
    tlc_status status = tlc_mpi_collect(h, moved, &full);

    if (!status && full && h->state == TLC_MPI_PUSHES) {
        *moved = 1;
        status = reduce(h);
        if (!status)
            status = tlc_mpi_collect(h, moved, &full);
    }
    if (!status && full && h->state == TLC_MPI_ANSWERS) {
        *moved = 1;
        pull(h);
    }
    return status;
}

static tlc_status outcome(const tlc_mpi *h, tlc_outcome *o)
{
    return tlc_allreduce_outcome(h->object.allreduce, o);
}

static size_t message_bound(const tlc_mpi *h)
{
    return tlc_allreduce_message_bound(h->object.allreduce);
}

static void free_object(tlc_mpi *h)
{
    tlc_allreduce_destroy(h->object.allreduce);
    tlc_mail_give_back(&h->mail, h->delta);
}

static const tlc_mpi_role role = {.kind = "an all-reduce",
                                  .push = TLC_EXCHANGE_CODEC,
                                  .advance = advance,
                                  .outcome = outcome,
                                  .message_bound = message_bound,
                                  .free = free_object};

static void make_object(tlc_mpi_making *m)
{
    m->exchange.workers = (uint32_t)m->ranks;
    tlc_mpi_make_peers(m, (size_t)m->ranks, 0, NULL);
    if (m->status)
        return;
    m->handle->gather = m->exchange.gather;
    m->status = tlc_allreduce_create(&m->handle->object.allreduce, &m->exchange, (uint32_t)m->rank, m->cfg.tensors,
                                     m->cfg.count);
}

tlc_status tlc_mpi_allreduce_create(tlc_mpi **out, const tlc_mpi_config *cfg)
{
    tlc_mpi_making m;
    tlc_status status = tlc_mpi_make_begin(&m, &role, cfg, NULL);

    if (status)
        return status;
    make_object(&m);
    return tlc_mpi_make_end(&m, "all-reduce", 1, out);
}

tlc_status tlc_mpi_owners_create(tlc_mpi **out, const tlc_mpi_config *cfg, tlc_mpi_owner_update update, void *arg)
{
    tlc_mpi_making m;
    tlc_status status = tlc_mpi_make_begin(&m, &role, cfg, NULL);

    if (status)
        return status;
    if (!update)
        (void)tlc_mpi_make_refuse(&m, TLC_ERR_PARAM, "update is NULL");
    if (m.exchange.gather)
        (void)tlc_mpi_make_refuse(&m, TLC_ERR_PARAM, "with gather no rank owns parts, so there is nothing to update");
    make_object(&m);
    tlc_mpi *h = m.handle;
    if (!m.status) {
        h->update = update;
        h->update_arg = arg;
        h->delta = tlc_mpi_take_deltas(h, tlc_allreduce_parts(h->object.allreduce), part_values);
        if (!h->delta)
            (void)tlc_mpi_make_refuse(&m, TLC_ERR_NOMEM, "%s", tlc_status_string(TLC_ERR_NOMEM));
    }
    return tlc_mpi_make_end(&m, "all-reduce with optimizers at the owners", 1, out);
}

tlc_status tlc_mpi_allreduce_start(tlc_mpi *h, const void *const *grads, double weight, void *const *out)
{
    tlc_status status = tlc_mpi_may_push(h, &role, "tlc_mpi_allreduce_start", out);

    if (!status)
        TLC_MPI_TIMED(h, status, tlc_allreduce_push(h->object.allreduce, grads, weight, h->to));
    if (status)
        return status;
    const int owns = !h->gather && h->to[own_index(h)].len;
    for (size_t k = 0; k < h->peers && !status; k++) {
        const size_t to = tlc_mpi_turn(h, k);
        if (to != own_index(h) && h->to[to].len)
            status = tlc_mpi_send(h, to, h->to[to], TLC_TAG_PUSH);
    }
    open_boxes(h, owns || h->gather ? TLC_TAG_PUSH : TLC_TAG_ANSWER, !owns);
    h->state = owns ? TLC_MPI_PUSHES : TLC_MPI_ANSWERS;
    return status ? tlc_mpi_break(h, status, NULL) : TLC_OK;
}

tlc_status tlc_mpi_allreduce(tlc_mpi *h, const void *const *grads, void *const *out)
{
    tlc_status status = tlc_mpi_allreduce_start(h, grads, 1, out);
    return status ? status : tlc_mpi_wait(h);
}

tlc_allreduce *tlc_mpi_allreduce_object(tlc_mpi *h)
{
    return h && h->role == &role ? h->object.allreduce : NULL;
}
