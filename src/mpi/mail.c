/* SPDX-License-Identifier: MIT */
#include "../common/sizes.h"
#include "mail.h"
#include <stdio.h>
#include <stdlib.h>

tlc_status tlc_mail_check(tlc_mail *m, int code)
{
    if (code == MPI_SUCCESS)
        return TLC_OK;
    if (m->error == MPI_SUCCESS)
        m->error = code;
    return TLC_ERR_TRANSPORT;
}

void tlc_mail_error_text(int code, char text[MPI_MAX_ERROR_STRING])
{
    int len = 0;

    if (MPI_Error_string(code, text, &len) != MPI_SUCCESS || !len)
        snprintf(text, MPI_MAX_ERROR_STRING, "MPI failed with the code %d", code);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

void *tlc_mail_take(const tlc_mail *m, size_t count, size_t size)
{
    if (count > SIZE_MAX / size)
        return NULL;
    if (!m->alloc.alloc)
        return calloc(count, size);
    void *memory = m->alloc.alloc(m->alloc.opaque, count * size);
    return memory ? memset(memory, 0, count * size) : NULL;
}

void tlc_mail_give_back(const tlc_mail *m, void *memory)
{
    if (!m->alloc.free)
        free(memory);
    else if (memory)
        m->alloc.free(m->alloc.opaque, memory);
}

/* Makes room for `needed` elements, at least twice as much as before. The first `used` ones are kept. */
static tlc_status grow(const tlc_mail *m, void **memory, size_t *room, size_t used, size_t needed, size_t size)
{
    if (needed <= *room)
        return TLC_OK;
    size_t larger = *room <= SIZE_MAX / 2 && needed < 2 * *room ? 2 * *room : needed;
    void *moved = tlc_mail_take(m, larger, size);
    if (!moved)
        return TLC_ERR_NOMEM;
    if (used)
        memcpy(moved, *memory, used * size);
    tlc_mail_give_back(m, *memory);
    *memory = moved;
    *room = larger;
    return TLC_OK;
}

tlc_status tlc_mail_reserve(const tlc_mail *m, tlc_sends *sends, size_t messages, size_t len)
{
    const size_t pieces = len / m->chunk + 1;
    void *list = sends->list;

    if (messages > SIZE_MAX / pieces)
        return TLC_ERR_NOMEM;
    tlc_status status = grow(m, &list, &sends->room, sends->count, messages * pieces, sizeof(MPI_Request));
    sends->list = list;
    return status;
}

tlc_status tlc_box_reserve(const tlc_mail *m, tlc_box *b, size_t len)
{
    void *bytes = b->bytes;
    tlc_status status = grow(m, &bytes, &b->room, b->len, len, 1);

    b->bytes = bytes;
    return status;
}

/* ---- send -------------------------------------------------------------------------------------------------------- */

tlc_status tlc_mail_send(tlc_mail *m, tlc_sends *sends, tlc_message message, int to, tlc_tag tag)
{
    const unsigned char *bytes = message.data;
    size_t pieces = message.len / m->chunk + 1;
    tlc_status status = TLC_OK;

    for (size_t i = 0; i < pieces && !status; i++) {
        size_t len = i + 1 < pieces ? m->chunk : message.len % m->chunk;
        status = tlc_mail_check(m, MPI_Isend(len ? bytes + i * m->chunk : NULL, (int)len, MPI_BYTE, to, (int)tag,
                                             m->comm, &sends->list[sends->count]));
        sends->count += !status;
    }
    if (to != m->rank) {
        m->sent += message.len;
        m->pieces += pieces;
    }
    return status;
}

tlc_status tlc_mail_test(tlc_mail *m, tlc_sends *sends, int *done)
{
    MPI_Status *volatile ignore = MPI_STATUSES_IGNORE; /* volatile: gcc would take it for the address of an array */

    *done = 1;
    if (!sends->count)
        return TLC_OK;
    tlc_status status = tlc_mail_check(m, MPI_Testall((int)sends->count, sends->list, done, ignore));
    if (*done)
        sends->count = 0;
    return status;
}

/* ---- receive ----------------------------------------------------------------------------------------------------- */

void tlc_box_open(tlc_box *b, int from, tlc_tag tag)
{
    b->state = TLC_BOX_OPEN;
    b->from = from;
    b->tag = tag;
    b->len = 0;
}

/* Begins to receive a piece, if one came. The communicator has no other reader, so the piece that the probe saw is the
 * one that is received. */
static tlc_status receive(tlc_mail *m, tlc_box *b)
{
    MPI_Status about;
    int came = 0;
    tlc_status status = tlc_mail_check(m, MPI_Iprobe(b->from, (int)b->tag, m->comm, &came, &about));

    if (status || !came)
        return status;
    status = tlc_mail_check(m, MPI_Get_count(&about, MPI_BYTE, &b->piece_len));
    if (status)
        return status;
    size_t len = (size_t)b->piece_len;
    status = tlc_box_reserve(m, b, b->len + len);
    if (status)
        return status;
    status = tlc_mail_check(m, MPI_Irecv(len ? b->bytes + b->len : NULL, b->piece_len, MPI_BYTE, b->from, (int)b->tag,
                                         m->comm, &b->piece));
    if (!status)
        b->state = TLC_BOX_RECEIVING;
    return status;
}

tlc_status tlc_box_poll(tlc_mail *m, tlc_box *b, int *moved)
{
    tlc_status status = TLC_OK;

    while (!status && (b->state == TLC_BOX_OPEN || b->state == TLC_BOX_RECEIVING)) {
        if (b->state == TLC_BOX_OPEN) {
            status = receive(m, b);
            if (b->state == TLC_BOX_OPEN)
                return status;
        }
        int done = 0;
        status = tlc_mail_check(m, MPI_Test(&b->piece, &done, MPI_STATUS_IGNORE));
        if (status || !done)
            return status;
        b->len += (size_t)b->piece_len;
        b->state = (size_t)b->piece_len < m->chunk ? TLC_BOX_FULL : TLC_BOX_OPEN;
        if (b->from != m->rank)
            m->received += (size_t)b->piece_len;
        *moved = 1;
    }
    return status;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Does MPI let go of the memory of a request? */
static int let_go(MPI_Request *request, int cancels)
{
    int done = 0;

    if (cancels && *request != MPI_REQUEST_NULL)
        (void)MPI_Cancel(request);
    if (*request != MPI_REQUEST_NULL)
        (void)MPI_Test(request, &done, MPI_STATUS_IGNORE);
    return *request == MPI_REQUEST_NULL;
}

int tlc_mail_let_go(const tlc_mail *m, tlc_sends *sends)
{
    int all = 1;

    for (size_t i = 0; i < sends->count; i++)
        all &= let_go(&sends->list[i], m->error != MPI_SUCCESS);
    return all;
}

int tlc_box_let_go(tlc_box *b)
{
    return b->state != TLC_BOX_RECEIVING || let_go(&b->piece, 1);
}
