/* SPDX-License-Identifier: MIT
 *
 * A parameter server over MPI. It answers every step to all workers. An empty push says that a worker leaves. It gets
 * an empty answer, after which nothing comes for it any more.
 */
#include "servers.h"

static size_t count_of(const tlc_mpi *h, const unsigned char *flags)
{
    size_t count = 0;

    for (size_t i = 0; i < h->peers; i++)
        count += flags[i];
    return count;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static void end(tlc_mpi *h, tlc_mpi_state state, tlc_status result)
{
    h->state = state;
    h->result = result;
    h->fresh = 1;
}

static tlc_status give(tlc_mpi *h, size_t i)
{
    tlc_push_info info = {.struct_size = sizeof info};
    tlc_status status;

    TLC_MPI_TIMED(h, status, tlc_server_push(h->object.server, tlc_box_message(&h->box[i]), &info));
    if (status)
        return status;
    if (info.late || info.repeated)
        tlc_mpi_server_reopen(h, i);
    else
        h->given[i] = 1;
    return TLC_OK;
}

/* Are there enough pushes? Those who have left push no more. */
static int is_ready(const tlc_mpi *h, size_t pushes)
{
    return pushes && (tlc_server_ready(h->object.server) || pushes + count_of(h, h->over) >= h->peers);
}

static tlc_status advance(tlc_mpi *h, int *moved)
{
    tlc_status status = tlc_mpi_server_attend(h, moved), failed = TLC_OK;

    if (status)
        return status;
    for (size_t i = 0; i < h->peers && !failed; i++)
        if (h->box[i].state == TLC_BOX_FULL && !h->given[i])
            failed = give(h, i);
    if (!failed && is_ready(h, count_of(h, h->given))) {
        TLC_MPI_TIMED(h, failed, tlc_server_reduce(h->object.server));
        if (!failed || failed == TLC_ERR_STEP) {
            end(h, TLC_MPI_REDUCED, failed);
            failed = TLC_OK;
        }
    } else if (!failed && count_of(h, h->over) == h->peers)
        end(h, TLC_MPI_IDLE, tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL, "all workers have destroyed their handles"));
    if (failed)
        tlc_mpi_break(h, failed, NULL);
    return TLC_OK;
}

/* Wait would never return if the rank has a worker, too, whose push is needed and was not started. */
static tlc_status may_wait(tlc_mpi *h)
{
    const tlc_mpi *worker = h->pair;

    if (!worker || h->backup || worker->state == TLC_MPI_ANSWERS)
        return TLC_OK;
    return tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL,
                          "tlc_mpi_wait of the server was called before tlc_mpi_worker_start of step %ju on this rank",
                          (uintmax_t)tlc_server_step(h->object.server));
}

/* ---- leave ------------------------------------------------------------------------------------------------------- */

/* Have all messages left? */
static tlc_status all_sent(tlc_mpi *h, int *done)
{
    tlc_status status = tlc_mail_test(&h->mail, &h->sends, done);

    for (uint32_t i = 0; i < h->keep && !status; i++) {
        int sent = 1;
        status = tlc_mail_test(&h->mail, &h->answers[i], &sent);
        *done &= sent;
    }
    return status;
}

/* Ends the service: workers that push are told. Its own worker leaves with it. */
static void leave(tlc_mpi *h)
{
    tlc_status status = TLC_OK;
    int moved, gone = 0, sent = 0;

    h->leaving = 1;
    if (h->pair)
        status = tlc_mpi_worker_say_bye(h->pair);
    while (status != TLC_ERR_TRANSPORT && !(sent && gone && count_of(h, h->over) == h->peers)) {
        gone = !h->pair;
        status = tlc_mpi_server_attend(h, &moved);
        if (!status && h->pair)
            status = tlc_mpi_worker_see_off(h->pair, &gone);
        if (!status)
            status = all_sent(h, &sent);
        tlc_mpi_idle();
    }
}

/* ---- the role ---------------------------------------------------------------------------------------------------- */

static tlc_status outcome(const tlc_mpi *h, tlc_outcome *o)
{
    return tlc_server_outcome(h->object.server, o);
}

static size_t message_bound(const tlc_mpi *h)
{
    return tlc_server_message_bound(h->object.server);
}

static void free_object(tlc_mpi *h)
{
    for (uint32_t i = 0; h->answers && i < h->keep; i++)
        tlc_mail_give_back(&h->mail, h->answers[i].list);
    tlc_mail_give_back(&h->mail, h->answers);
    tlc_mail_give_back(&h->mail, h->given);
    tlc_mail_give_back(&h->mail, h->told);
    tlc_server_destroy(h->object.server);
}

static const tlc_mpi_role role = {.kind = "a server",
                                  .push = TLC_EXCHANGE_CODEC,
                                  .advance = advance,
                                  .outcome = outcome,
                                  .message_bound = message_bound,
                                  .may_wait = may_wait,
                                  .leave = leave,
                                  .free = free_object};

static void make(tlc_mpi_making *m, int first_server)
{
    tlc_mpi *h = m->handle;

    if (m->rank < first_server)
        (void)tlc_mpi_make_refuse(m, TLC_ERR_PARAM, "this rank is not a server: servers are ranks %d to %d",
                                  first_server, m->ranks - 1);
    tlc_mpi_make_peers(m, m->exchange.workers, 0, NULL);
    if (m->status)
        return;
    h->keep = m->exchange.keep;
    h->backup = m->exchange.backup;
    h->answers = tlc_mail_take(&h->mail, h->keep ? h->keep : 1, sizeof *h->answers);
    h->given = tlc_mail_take(&h->mail, h->peers, 1);
    h->told = tlc_mail_take(&h->mail, h->peers, 1);
    m->status = h->answers && h->given && h->told
                    ? tlc_server_create(&h->object.server, &m->exchange, (uint32_t)(m->rank - first_server),
                                        m->cfg.tensors, m->cfg.count)
                    : tlc_mpi_make_refuse(m, TLC_ERR_NOMEM, "%s", tlc_status_string(TLC_ERR_NOMEM));
    for (size_t i = 0; i < h->peers && !m->status; i++)
        tlc_mpi_server_reopen(h, i);
}

/* Why this handle cannot be the worker of a server on its rank; NULL: it can. Others do not wait for such a server. */
static const char *unfit(const tlc_mpi *worker)
{
    if (!tlc_mpi_is_worker(worker))
        return "worker is not the handle of a worker";
    if (worker->pair)
        return "worker has a server already";
    if (worker->state == TLC_MPI_BROKEN)
        return "worker is of no use any more";
    return worker->both ? NULL : "worker is given, but its rank is no server";
}

tlc_status tlc_mpi_server_create(tlc_mpi **out, const tlc_mpi_config *cfg, tlc_mpi *worker)
{
    const char *why = worker ? unfit(worker) : NULL;
    tlc_mpi_making m;

    if (why)
        return tlc_mpi_make_alone(cfg, why);
    tlc_status status = tlc_mpi_make_begin(&m, &role, cfg, worker);
    if (status)
        return status;
    const tlc_mpi_places places = tlc_mpi_places_of(&m);
    if (places.is_both && !worker) { /* if there is one, the others wait on its communicator, which is not known */
        (void)tlc_mpi_make_refuse(&m, TLC_ERR_PARAM, "this rank is a worker, too, and gives its handle as `worker`");
        return tlc_mpi_make_fail(&m, tlc_mpi_make_tell(&m));
    }
    if (worker && !places.is_both)
        (void)tlc_mpi_make_refuse(&m, TLC_ERR_PARAM, "worker is given, but this rank is not a worker");
    make(&m, places.first_server);
    /* the first comparison, if a rank is both, was that of its worker */
    return tlc_mpi_make_end(&m, places.kind, places.any_both && !places.is_both ? 2 : 1, out);
}

tlc_status tlc_mpi_server_start(tlc_mpi *h)
{
    tlc_status status = tlc_mpi_may_start(h, &role, "tlc_mpi_server_start");

    if (!status)
        h->state = TLC_MPI_PUSHES;
    return status;
}

tlc_server *tlc_mpi_server_object(tlc_mpi *h)
{
    return h && h->role == &role ? h->object.server : NULL;
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* Waits until all workers have the answer that this one replaces. A worker of this rank must go on meanwhile. */
static tlc_status wait_for_room(tlc_mpi *h, tlc_sends *answers)
{
    tlc_status status = TLC_OK;
    int done = 0;

    while (!status && !done) {
        status = tlc_mail_test(&h->mail, answers, &done);
        (void)tlc_mpi_progress(&h->pair, 1);
        if (!status && h->state == TLC_MPI_BROKEN) /* with its worker */
            status = h->result;
        if (!done)
            tlc_mpi_idle();
    }
    return status;
}

/* May the server answer now? */
static tlc_status may_answer(tlc_mpi *h)
{
    tlc_status status = tlc_mpi_is_kind(h, &role, "tlc_mpi_server_answer");

    if (status || h->state == TLC_MPI_BROKEN)
        return status ? status : h->result;
    if (h->state != TLC_MPI_REDUCED)
        return tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL,
                              "tlc_mpi_server_answer was called, but tlc_mpi_server_start and tlc_mpi_wait come first");
    const tlc_mpi *worker = h->pair;
    if (!worker || worker->state == TLC_MPI_ANSWERS ||
        tlc_worker_step(worker->object.worker) + h->keep > tlc_server_step(h->object.server))
        return TLC_OK;
    return tlc_mpi_refuse(
        h, TLC_ERR_ORDER, TLC_ALL,
        "tlc_mpi_server_answer was called, but the worker of this rank has not started step %ju, whose "
        "answer is replaced",
        (uintmax_t)tlc_worker_step(worker->object.worker));
}

tlc_status tlc_mpi_server_answer(tlc_mpi *h, const float *const *delta)
{
    tlc_message answer;
    tlc_status status = may_answer(h);

    if (status)
        return status;
    tlc_sends *sends = &h->answers[tlc_server_step(h->object.server) % h->keep];
    status = wait_for_room(h, sends);
    if (status)
        return tlc_mpi_break(h, status, NULL);
    TLC_MPI_TIMED(h, status, tlc_server_answer(h->object.server, delta, &answer));
    if (status)
        return status;
    for (size_t k = 0; k < h->peers && !status; k++) {
        const size_t i = tlc_mpi_turn(h, k);
        if (!h->told[i])
            status = tlc_mail_send(&h->mail, sends, answer, h->peer[i], TLC_TAG_ANSWER);
        if (h->given[i])
            tlc_mpi_server_reopen(h, i);
    }
    h->state = TLC_MPI_IDLE;
    h->fresh = 0;
    return status ? tlc_mpi_break(h, status, NULL) : TLC_OK;
}

/* ---- run --------------------------------------------------------------------------------------------------------- */

static size_t part_values(const tlc_mpi *h, size_t i)
{
    tlc_part part = {.struct_size = sizeof part};

    return tlc_server_part(h->object.server, i, &part) ? 0 : part.n;
}

/* A step may be under way for which there was no memory. On a rank with a worker, nobody would start the worker's steps
 * meanwhile. */
static tlc_status may_run(tlc_mpi *h)
{
    tlc_status status = tlc_mpi_is_kind(h, &role, "tlc_mpi_server_run");

    if (!status && h->state != TLC_MPI_PUSHES)
        status = tlc_mpi_may_start(h, &role, "tlc_mpi_server_run");
    if (status || !h->pair)
        return status;
    return tlc_mpi_refuse(
        h, TLC_ERR_PARAM, TLC_ALL,
        "tlc_mpi_server_run would wait for the worker of this rank; start the worker, then the server, "
        "in each step");
}

tlc_status tlc_mpi_server_run(tlc_mpi *h, tlc_mpi_update update, void *arg)
{
    tlc_status status = may_run(h);
    float **delta = status || !update ? NULL : tlc_mpi_take_deltas(h, tlc_server_parts(h->object.server), part_values);

    if (!status && update && !delta)
        status = tlc_mpi_refuse(h, TLC_ERR_NOMEM, TLC_ALL, "there is no memory for the deltas");
    while (!status) {
        h->state = TLC_MPI_PUSHES;
        status = tlc_mpi_wait(h);
        if (status == TLC_ERR_ORDER && h->state != TLC_MPI_BROKEN) { /* all workers have left */
            status = h->refused = TLC_OK;
            break;
        }
        if (status && status != TLC_ERR_STEP)
            break;
        const int updates = update && !status;
        status = updates ? update(arg, h->object.server, delta) : TLC_OK;
        if (!status)
            status = tlc_mpi_server_answer(h, updates ? (const float *const *)delta : NULL);
    }
    if (delta)
        tlc_mail_give_back(&h->mail, delta);
    return status;
}
