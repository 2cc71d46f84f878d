/* SPDX-License-Identifier: MIT
 *
 * What is the same for handles of all kinds: steps go on, end, and have results.
 */
#include "handle.h"
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- for the kinds ----------------------------------------------------------------------------------------------- */

tlc_status tlc_mpi_refuse(tlc_mpi *h, tlc_status status, size_t tensor, const char *format, ...)
{
    va_list arguments;
    size_t at;

    if (!h)
        return status;
    h->refused = status;
    h->refused_tensor = tensor;
    at = (size_t)snprintf(h->refusal, sizeof h->refusal, "rank %d: ", h->mail.rank);
    if (tensor != TLC_ALL)
        at += (size_t)snprintf(h->refusal + at, sizeof h->refusal - at, "tensor %zu (\"%.63s\"): ", tensor,
                               h->name[tensor]);
    va_start(arguments, format);
    vsnprintf(h->refusal + at, sizeof h->refusal - at, format, arguments);
    va_end(arguments);
    return status;
}

tlc_status tlc_mpi_is_kind(tlc_mpi *h, const tlc_mpi_role *role, const char *call)
{
    if (!h || h->role != role)
        return tlc_mpi_refuse(h, TLC_ERR_PARAM, TLC_ALL, "%s was called with the handle of %s", call,
                              h ? h->role->kind : "nobody");
    h->refused = TLC_OK;
    return TLC_OK;
}

tlc_status tlc_mpi_may_start(tlc_mpi *h, const tlc_mpi_role *role, const char *call)
{
    tlc_status status = tlc_mpi_is_kind(h, role, call);

    if (status)
        return status;
    if (h->state == TLC_MPI_BROKEN)
        return h->result;
    if (h->state == TLC_MPI_REDUCED)
        return tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL, "%s was called before tlc_mpi_server_answer", call);
    if (h->state != TLC_MPI_IDLE || h->fresh)
        return tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL, "%s was called before tlc_mpi_wait has ended the last step",
                              call);
    return TLC_OK;
}

tlc_status tlc_mpi_may_push(tlc_mpi *h, const tlc_mpi_role *role, const char *call, void *const *out)
{
    tlc_status status = tlc_mpi_may_start(h, role, call);

    for (size_t i = 0; !status && i < h->count; i++)
        if (h->n[i] && (!out || !out[i]))
            status = tlc_mpi_refuse(h, TLC_ERR_PARAM, i, out ? "its entry of out is NULL" : "out is NULL");
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

static void end_broken(tlc_mpi *h, tlc_status status, const char *sentence)
{
    snprintf(h->sentence, sizeof h->sentence, "%.199s", sentence);
    h->state = TLC_MPI_BROKEN;
    h->result = status;
    h->fresh = 1;
}

tlc_status tlc_mpi_break(tlc_mpi *h, tlc_status status, const char *sentence)
{
    char text[MPI_MAX_ERROR_STRING] = "";

    if (!sentence && h->mail.error != MPI_SUCCESS)
        tlc_mail_error_text(h->mail.error, text);
    else if (!sentence && status == TLC_ERR_NOMEM)
        sentence = tlc_status_string(status);
    end_broken(h, status, sentence ? sentence : text);
    if (h->pair && h->mail.error && !h->pair->mail.error) { /* it has the same communicator */
        h->pair->mail.error = h->mail.error;
        end_broken(h->pair, status, text);
    }
    return status;
}

float **tlc_mpi_take_deltas(const tlc_mpi *h, size_t parts, size_t (*values)(const tlc_mpi *h, size_t i))
{
    size_t all = 0;

    for (size_t i = 0; i < parts; i++)
        all += values(h, i);
    float **delta = tlc_mail_take(&h->mail, 1, (parts + 1) * sizeof *delta + all * sizeof **delta);
    float *at = delta ? (float *)(void *)(delta + parts + 1) : NULL;
    for (size_t i = 0; delta && i < parts; i++) {
        delta[i] = at;
        at += values(h, i);
    }
    return delta;
}

void tlc_mpi_idle(void)
{
    sched_yield();
}

double tlc_mpi_now(void)
{
    const tlc_float_mode mode = tlc_float_enter();
    const double now = MPI_Wtime();

    tlc_float_leave(mode);
    return now;
}

void tlc_mpi_count(double *seconds, double start)
{
    const tlc_float_mode mode = tlc_float_enter();

    *seconds += MPI_Wtime() - start;
    tlc_float_leave(mode);
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
    if (!status && h->state == TLC_MPI_SENDING && h->role->attend)
        status = h->role->attend(h, moved);
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
static tlc_status take_result(tlc_mpi *h, const char *call)
{
    if (!h->fresh && h->state != TLC_MPI_BROKEN)
        return tlc_mpi_refuse(h, TLC_ERR_ORDER, TLC_ALL, "%s was called, but %s", call,
                              h->state == TLC_MPI_REDUCED ? "tlc_mpi_server_answer comes first"
                                                          : "no step was started");
    h->fresh = 0;
    return h->result;
}

/* There is no memory for a message that came. */
static tlc_status refuse_memory(tlc_mpi *h, tlc_status status)
{
    return tlc_mpi_refuse(h, status, TLC_ALL, "there is no memory for a message that came; the next call goes on");
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
        return tlc_mpi_refuse(h, TLC_ERR_PARAM, TLC_ALL, "done is NULL");
    *done = 0;
    h->refused = TLC_OK;
    if (is_under_way(h))
        status = go_on(h, &moved);
    if (status)
        return refuse_memory(h, status);
    if (is_under_way(h))
        return TLC_OK;
    *done = h->fresh;
    return take_result(h, "tlc_mpi_test");
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
            return refuse_memory(handles[i], status);
        *waits += (size_t)is_under_way(handles[i]);
    }
    return TLC_OK;
}

/* May this rank wait for all of them? */
static tlc_status may_wait(tlc_mpi *const *handles, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        tlc_mpi *h = handles[i];
        if (!h)
            continue;
        h->refused = TLC_OK;
        tlc_status status = is_under_way(h) && h->role->may_wait ? h->role->may_wait(h) : TLC_OK;
        if (status)
            return status;
    }
    return TLC_OK;
}

/* Takes the results that there are. TLC_ERR_ORDER: there are none. */
static tlc_status take_results(tlc_mpi *const *handles, size_t count)
{
    tlc_status first = TLC_OK;
    int any = 0;

    for (size_t i = 0; i < count; i++) {
        if (!handles[i] || (!handles[i]->fresh && handles[i]->state != TLC_MPI_BROKEN))
            continue;
        tlc_status result = take_result(handles[i], "tlc_mpi_wait");
        first = first ? first : result;
        any = 1;
    }
    for (size_t i = 0; i < count && !any; i++)
        if (handles[i])
            (void)take_result(handles[i], "tlc_mpi_wait");
    return any ? first : TLC_ERR_ORDER;
}

tlc_status tlc_mpi_wait_all(tlc_mpi *const *handles, size_t count)
{
    tlc_status status = handles || !count ? may_wait(handles, count) : TLC_ERR_PARAM;
    size_t waits = 1;

    while (waits && !status) {
        const double start = tlc_mpi_now();
        int moved = 0;
        status = go_on_all(handles, count, &moved, &waits);
        if (moved || !waits)
            continue;
        tlc_mpi_idle();
        for (size_t i = 0; i < count; i++)
            if (handles[i] && is_under_way(handles[i]))
                tlc_mpi_count(&handles[i]->waiting, start);
    }
    return status ? status : take_results(handles, count);
}

/* ---- the rest ---------------------------------------------------------------------------------------------------- */

/* Does MPI let go of all messages of a handle that is not of use any more? */
static int let_go(tlc_mpi *h)
{
    int all = tlc_mail_let_go(&h->mail, &h->sends);

    for (uint32_t i = 0; h->answers && i < h->keep; i++)
        all &= tlc_mail_let_go(&h->mail, &h->answers[i]);
    for (size_t i = 0; i < h->peers; i++)
        all &= tlc_box_let_go(&h->box[i]);
    return all;
}

void tlc_mpi_free(tlc_mpi *h)
{
    const tlc_mail mail = h->mail;

    if (!let_go(h))
        return;
    h->role->free(h);
    for (size_t i = 0; i < h->peers; i++)
        tlc_mail_give_back(&mail, h->box[i].bytes);
    tlc_mail_give_back(&mail, h->sends.list);
    tlc_mail_give_back(&mail, h->peer);
    tlc_mail_give_back(&mail, h->box);
    tlc_mail_give_back(&mail, h->from);
    tlc_mail_give_back(&mail, h->to);
    tlc_mail_give_back(&mail, h->over);
    tlc_mail_give_back(&mail, h->out);
    tlc_mail_give_back(&mail, h->n);
    tlc_mail_give_back(&mail, h->name);
    tlc_mail_give_back(&mail, h);
}

void tlc_mpi_destroy(tlc_mpi *h)
{
    if (!h)
        return;
    while (is_under_way(h) && !h->role->leave)
        (void)tlc_mpi_wait(h); /* again if there was no memory: others wait for this rank */
    if (h->role->leave && !h->mail.error)
        h->role->leave(h);
    if (h->pair) { /* one communicator: what fails for one fails for both */
        if (h->mail.error || h->pair->mail.error)
            (void)tlc_mpi_break(h->mail.error ? h : h->pair, TLC_ERR_TRANSPORT, NULL);
        h->pair->pair = NULL; /* now the communicator is its own */
    } else if (!h->mail.error)
        (void)MPI_Comm_free(&h->mail.comm);
    tlc_mpi_free(h);
}

tlc_status tlc_mpi_outcome(const tlc_mpi *h, tlc_outcome *outcome)
{
    if (!h || !outcome || outcome->struct_size < sizeof outcome->struct_size)
        return TLC_ERR_PARAM;
    if (!h->refused && !h->sentence[0])
        return h->role->outcome(h, outcome);
    tlc_outcome ours = {.rank = h->refused ? (uint32_t)h->mail.rank : TLC_NOBODY,
                        .tensor = h->refused ? h->refused_tensor : TLC_ALL};
    const char *sentence = h->refused ? h->refusal : h->sentence;
    ours.status = ours.cause = h->refused ? h->refused : h->result;
    for (size_t i = 0; i + 1 < sizeof ours.sentence && sentence[i]; i++)
        ours.sentence[i] = sentence[i] < ' ' || sentence[i] > '~' ? '?' : sentence[i];
    tlc_export(outcome, &ours, sizeof ours);
    return TLC_OK;
}

tlc_status tlc_mpi_stats_init(tlc_mpi_stats *stats, size_t struct_size)
{
    return tlc_init(stats, struct_size, &struct_size, sizeof struct_size);
}

tlc_status tlc_mpi_get_stats(const tlc_mpi *h, tlc_mpi_stats *stats)
{
    if (!h || !stats || stats->struct_size < sizeof stats->struct_size)
        return tlc_mpi_refuse((tlc_mpi *)(uintptr_t)h, TLC_ERR_PARAM, TLC_ALL, /* only what `_outcome` tells changes */
                              "stats is NULL, or its struct_size is smaller than %zu", sizeof(size_t));
    const tlc_mpi_stats ours = {.sent = h->mail.sent,
                                .received = h->mail.received,
                                .messages = h->mail.pieces,
                                .codec = h->codec,
                                .waiting = h->waiting};
    tlc_export(stats, &ours, sizeof ours);
    return TLC_OK;
}
