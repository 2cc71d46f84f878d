/* SPDX-License-Identifier: MIT
 *
 * A worker of parameter servers over MPI. Servers answer all steps, so a worker that is late finds the answers that it
 * missed, in order. An empty push says that the worker leaves, an empty answer that the server has ended for it.
 */
#include "servers.h"

static void pull(tlc_mpi *h)
{
    tlc_status status;

    for (size_t i = 0; i < h->peers; i++)
        h->from[i] = tlc_box_message(&h->box[i]);
    TLC_MPI_TIMED(h, status, tlc_worker_pull(h->object.worker, h->from, h->out));
    if (status && status != TLC_ERR_STEP)
        tlc_mpi_break(h, status, NULL);
    else
        tlc_mpi_end(h, status);
}

static tlc_status advance(tlc_mpi *h, int *moved)
{
    int full;
    tlc_status status = tlc_mpi_collect(h, moved, &full);

    if (status)
        return status;
    if (tlc_mpi_worker_ends(h)) {
        tlc_mpi_break(h, TLC_ERR_ORDER, "a server was destroyed before this step");
        *moved = 1;
    } else if (full) {
        pull(h);
        *moved = 1;
    }
    return TLC_OK;
}

/* A server of this rank takes the push of a step that it has answered already, though it waits for nothing. */
static tlc_status attend(tlc_mpi *h, int *moved)
{
    tlc_status status = h->pair ? tlc_mpi_server_attend(h->pair, moved) : TLC_OK;

    if (status != TLC_ERR_TRANSPORT)
        return status;
    tlc_mpi_break(h->pair, status, NULL); /* and this handle with it */
    return TLC_OK;
}

/* ---- leave ------------------------------------------------------------------------------------------------------- */

/* Wait would never return if a server on the same rank has not answered the step under way. */
static tlc_status may_wait(tlc_mpi *h)
{
    const uint64_t step = tlc_worker_step(h->object.worker);

    if (h->state != TLC_MPI_ANSWERS || !h->pair || tlc_server_step(h->pair->object.server) > step)
        return TLC_OK;
    return tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL,
                          "tlc_mpi_wait of the worker was called before tlc_mpi_server_answer of step %ju on this rank",
                          (uintmax_t)step);
}

/* Its own server must go on meanwhile: it, too, is told. */
static void leave(tlc_mpi *h)
{
    int moved, gone = 0;

    if (may_wait(h)) /* the server of this rank ends with it, in the middle of a step */
        h->pair->leaving = 1;
    else
        while (h->state != TLC_MPI_IDLE && h->state != TLC_MPI_BROKEN)
            (void)tlc_mpi_wait(h); /* again if there was no memory: others wait for this rank */
    tlc_status status = h->mail.error ? TLC_ERR_TRANSPORT : tlc_mpi_worker_say_bye(h);
    while (status != TLC_ERR_TRANSPORT && !gone) {
        status = tlc_mpi_worker_see_off(h, &gone);
        if (!status && h->pair)
            status = tlc_mpi_server_attend(h->pair, &moved);
        if (!gone)
            tlc_mpi_idle();
    }
}

/* ---- the role ---------------------------------------------------------------------------------------------------- */

static tlc_status outcome(const tlc_mpi *h, tlc_outcome *o)
{
    uint32_t at_fault = 0;

    for (uint32_t i = (uint32_t)h->peers; i-- > 0;) {
        tlc_outcome ours = {.struct_size = sizeof ours};
        if (!tlc_worker_outcome(h->object.worker, i, &ours) && (ours.status || ours.cause))
            at_fault = i;
    }
    return tlc_worker_outcome(h->object.worker, at_fault, o);
}

static size_t message_bound(const tlc_mpi *h)
{
    return tlc_worker_message_bound(h->object.worker);
}

static void free_object(tlc_mpi *h)
{
    tlc_worker_destroy(h->object.worker);
}

static const tlc_mpi_role role = {.kind = "a worker",
                                  .push = TLC_EXCHANGE_CODEC,
                                  .advance = advance,
                                  .outcome = outcome,
                                  .message_bound = message_bound,
                                  .attend = attend,
                                  .may_wait = may_wait,
                                  .leave = leave,
                                  .free = free_object};

tlc_status tlc_mpi_worker_create(tlc_mpi **out, const tlc_mpi_config *cfg)
{
    tlc_mpi_making m;
    tlc_status status = tlc_mpi_make_begin(&m, &role, cfg, NULL);

    if (status)
        return status;
    const tlc_mpi_places places = tlc_mpi_places_of(&m);
    if ((uint32_t)m.rank >= m.exchange.workers)
        (void)tlc_mpi_make_refuse(&m, TLC_ERR_PARAM, "this rank is not a worker: workers are ranks 0 to %u",
                                  m.exchange.workers - 1);
    tlc_mpi_make_peers(&m, m.exchange.servers, places.first_server, NULL);
    if (m.handle)
        m.handle->both = places.is_both;
    if (!m.status)
        m.status = tlc_worker_create(&m.handle->object.worker, &m.exchange, (uint32_t)m.rank, m.cfg.tensors,
                                     m.cfg.count);
    /* the second comparison, if any rank is both, is that of its server */
    return tlc_mpi_make_end(&m, places.kind, places.any_both && !places.is_both ? 2 : 1, out);
}

tlc_status tlc_mpi_worker_start(tlc_mpi *h, const void *const *grads, double weight, void *const *out)
{
    tlc_status status = tlc_mpi_may_push(h, &role, "tlc_mpi_worker_start", out);

    if (!status)
        TLC_MPI_TIMED(h, status, tlc_worker_push(h->object.worker, grads, weight, h->to));
    if (status)
        return status;
    for (size_t k = 0; k < h->peers && !status; k++) {
        const size_t to = tlc_mpi_turn(h, k);
        status = tlc_mpi_send(h, to, h->to[to], TLC_TAG_PUSH);
    }
    tlc_mpi_worker_open(h);
    h->state = TLC_MPI_ANSWERS;
    return status ? tlc_mpi_break(h, status, NULL) : TLC_OK;
}

tlc_worker *tlc_mpi_worker_object(tlc_mpi *h)
{
    return h && h->role == &role ? h->object.worker : NULL;
}

int tlc_mpi_is_worker(const tlc_mpi *h)
{
    return h->role == &role;
}
