/* SPDX-License-Identifier: MIT
 *
 * What is the same for handles of all kinds: steps go on, end, and have results.
 */
#include "handle.h"
#include <sched.h>
#include <stdio.h>

/* ---- for the kinds ----------------------------------------------------------------------------------------------- */

tlc_status tlc_mpi_may_start(const tlc_mpi *h, const tlc_mpi_role *role)
{
    if (!h || h->role != role)
        return TLC_ERR_PARAM;
    if (h->state == TLC_MPI_BROKEN)
        return h->result;
    return h->state == TLC_MPI_IDLE && !h->fresh ? TLC_OK : TLC_ERR_ORDER;
}

tlc_status tlc_mpi_may_push(tlc_mpi *h, const tlc_mpi_role *role, void *const *out)
{
    tlc_status status = tlc_mpi_may_start(h, role);

    for (size_t i = 0; !status && i < h->count; i++)
        if (h->n[i] && (!out || !out[i]))
            status = TLC_ERR_PARAM;
    if (!status && h->count && out)
        memcpy(h->out, out, h->count * sizeof *out);
    return status;
}

size_t tlc_mpi_turn(const tlc_mpi *h, size_t k)
{
    return ((size_t)h->mail.rank + 1 + k) % h->peers;
}

tlc_status tlc_mpi_send(tlc_mpi *h, size_t peer, tlc_message message, tlc_tag tag)
{
    return tlc_mail_send(&h->mail, &h->sends, message, h->peer[peer], tag);
}

tlc_status tlc_mpi_collect(tlc_mpi *h, int *moved, int *full)
{
    tlc_status status = TLC_OK;

    *full = 1;
    for (size_t i = 0; i < h->peers && !status; i++) {
        status = tlc_box_poll(&h->mail, &h->box[i], moved);
        if (h->box[i].state == TLC_BOX_OPEN || h->box[i].state == TLC_BOX_RECEIVING)
            *full = 0;
    }
    return status;
}

void tlc_mpi_end(tlc_mpi *h, tlc_status result)
{
    h->result = result;
    h->state = TLC_MPI_SENDING;
}

tlc_status tlc_mpi_break(tlc_mpi *h, tlc_status status, const char *sentence)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    if (!sentence && h->mail.error != MPI_SUCCESS)
        MPI_Error_string(h->mail.error, text, &len);
    else if (!sentence && status == TLC_ERR_NOMEM)
        sentence = tlc_status_string(status);
    snprintf(h->sentence, sizeof h->sentence, "%.199s", sentence ? sentence : text);
    h->state = TLC_MPI_BROKEN;
    h->result = status;
    h->fresh = 1;
    return status;
}

void tlc_mpi_idle(void)
{
    sched_yield();
}

/* ---- going on ---------------------------------------------------------------------------------------------------- */

static int is_under_way(const tlc_mpi *h)
{
    return h->state == TLC_MPI_PUSHES || h->state == TLC_MPI_ANSWERS || h->state == TLC_MPI_HELLOS ||
           h->state == TLC_MPI_SENDING;
}

/* TLC_ERR_NOMEM: not for a message that came. */
static tlc_status go_on(tlc_mpi *h, int *moved)
{
    tlc_status status = TLC_OK;
    int left = 0;

    if (h->state != TLC_MPI_SENDING)
        status = h->role->advance(h, moved);
    if (!status && h->state == TLC_MPI_SENDING)
        status = tlc_mail_test(&h->mail, &h->sends, &left);
    if (left) {
        h->state = TLC_MPI_IDLE;
        h->fresh = 1;
        *moved = 1;
    }
    if (status != TLC_ERR_TRANSPORT)
        return status;
    tlc_mpi_break(h, status, NULL);
    return TLC_OK;
}

/* The result of a step that is not under way any more, once. */
static tlc_status take_result(tlc_mpi *h)
{
    if (!h->fresh && h->state != TLC_MPI_BROKEN)
        return TLC_ERR_ORDER;
    h->fresh = 0;
    return h->result;
}

tlc_status tlc_mpi_progress(tlc_mpi *const *handles, size_t count)
{
    int moved;

    if (!handles && count)
        return TLC_ERR_PARAM;
    for (size_t i = 0; i < count; i++)
        if (handles[i] && is_under_way(handles[i]))
            (void)go_on(handles[i], &moved); /* wait returns what is wrong */
    return TLC_OK;
}

tlc_status tlc_mpi_test(tlc_mpi *h, int *done)
{
    tlc_status status = TLC_OK;
    int moved;

    if (!h || !done)
        return TLC_ERR_PARAM;
    *done = 0;
    if (is_under_way(h))
        status = go_on(h, &moved);
    if (status || is_under_way(h))
        return status;
    *done = h->fresh;
    return take_result(h);
}

tlc_status tlc_mpi_wait(tlc_mpi *h)
{
    return h ? tlc_mpi_wait_all(&h, 1) : TLC_ERR_PARAM;
}

/* Lets all handles go on. *waits: steps that are under way still. */
static tlc_status go_on_all(tlc_mpi *const *handles, size_t count, int *moved, size_t *waits)
{
    *waits = 0;
    for (size_t i = 0; i < count; i++) {
        if (!handles[i] || !is_under_way(handles[i]))
            continue;
        tlc_status status = go_on(handles[i], moved);
        if (status)
            return status;
        *waits += (size_t)is_under_way(handles[i]);
    }
    return TLC_OK;
}

tlc_status tlc_mpi_wait_all(tlc_mpi *const *handles, size_t count)
{
    tlc_status status = TLC_OK, first = TLC_OK;
    size_t waits = 1;
    int any = 0;

    if (!handles && count)
        return TLC_ERR_PARAM;
    while (waits && !status) {
        const double start = MPI_Wtime();
        int moved = 0;
        status = go_on_all(handles, count, &moved, &waits);
        if (moved || !waits)
            continue;
        tlc_mpi_idle();
        for (size_t i = 0; i < count; i++)
            if (handles[i] && is_under_way(handles[i]))
                handles[i]->waiting += MPI_Wtime() - start;
    }
    for (size_t i = 0; i < count && !status; i++) {
        if (!handles[i] || (!handles[i]->fresh && handles[i]->state != TLC_MPI_BROKEN))
            continue;
        tlc_status result = take_result(handles[i]);
        first = first ? first : result;
        any = 1;
    }
    return status ? status : any ? first : TLC_ERR_ORDER;
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

void tlc_mpi_destroy(tlc_mpi *h)
{
    if (!h)
        return;
    if (is_under_way(h) && !h->role->leave)
        (void)tlc_mpi_wait(h);
    if (h->role->leave && !h->mail.error)
        h->role->leave(h);
    if (h->pair)
        h->pair->pair = NULL; /* now the communicator is its own */
    else if (!h->mail.error)
        (void)MPI_Comm_free(&h->mail.comm);
    tlc_mpi_free(h);
}

tlc_status tlc_mpi_outcome(const tlc_mpi *h, tlc_outcome *outcome)
{
    if (!h || !outcome || outcome->struct_size < sizeof outcome->struct_size)
        return TLC_ERR_PARAM;
    if (h->state != TLC_MPI_BROKEN || !h->sentence[0])
        return h->role->outcome(h, outcome);
    tlc_outcome ours = {.status = h->result, .cause = h->result, .rank = TLC_NOBODY, .tensor = TLC_ALL};
    memcpy(ours.sentence, h->sentence, sizeof h->sentence);
    tlc_export(outcome, &ours, sizeof ours);
    return TLC_OK;
}

tlc_status tlc_mpi_get_stats(const tlc_mpi *h, tlc_mpi_stats *stats)
{
    if (!h || !stats || stats->struct_size < sizeof stats->struct_size)
        return TLC_ERR_PARAM;
    const tlc_mpi_stats ours = {.sent = h->mail.sent,
                                .received = h->mail.received,
                                .messages = h->mail.pieces,
                                .codec = h->codec,
                                .waiting = h->waiting};
    tlc_export(stats, &ours, sizeof ours);
    return TLC_OK;
}
