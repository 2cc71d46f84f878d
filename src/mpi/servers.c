/* SPDX-License-Identifier: MIT
 *
 * Where workers and servers are, how they open their boxes, and how they part.
 */
#include "servers.h"

tlc_mpi_places tlc_mpi_places_of(tlc_mpi_making *m)
{
    const uint64_t workers = m->exchange.workers, servers = m->exchange.servers, ranks = (uint64_t)m->ranks;
    tlc_mpi_places p = {.kind = "parameter servers"};

    if (!servers || !workers || servers > ranks || workers > ranks || workers + servers < ranks)
        (void)tlc_mpi_make_refuse(
            m, TLC_ERR_PARAM,
            "workers is %u and servers is %u, but there are %d ranks; each is 1 to %d, and together "
            "they are at least %d",
            m->exchange.workers, m->exchange.servers, m->ranks, m->ranks, m->ranks);
    if (m->status)
        return p;
    p.first_server = m->ranks - (int)servers;
    p.any_both = workers + servers > ranks;
    p.is_both = m->rank >= p.first_server && (uint64_t)m->rank < workers;
    return p;
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

void tlc_mpi_worker_open(tlc_mpi *h)
{
    for (size_t i = 0; i < h->peers; i++)
        if (!h->over[i] && (h->box[i].state == TLC_BOX_CLOSED || h->box[i].state == TLC_BOX_FULL))
            tlc_box_open(&h->box[i], h->peer[i], TLC_TAG_ANSWER);
}

size_t tlc_mpi_worker_ends(tlc_mpi *h)
{
    size_t ended = 0;

    for (size_t i = 0; i < h->peers; i++) {
        if (h->box[i].state == TLC_BOX_FULL && !h->box[i].len) {
            h->over[i] = 1;
            h->box[i].state = TLC_BOX_CLOSED;
        }
        ended += h->over[i];
    }
    return ended;
}

tlc_status tlc_mpi_worker_say_bye(tlc_mpi *h)
{
    tlc_status status = TLC_OK;

    if (h->leaving)
        return TLC_OK;
    h->leaving = 1;
    for (size_t i = 0; i < h->peers && !status; i++)
        status = tlc_mpi_send(h, i, (tlc_message){NULL, 0}, TLC_TAG_PUSH);
    tlc_mpi_worker_open(h);
    return status;
}

tlc_status tlc_mpi_worker_see_off(tlc_mpi *h, int *gone)
{
    int moved = 0, full;
    tlc_status status = tlc_mpi_collect(h, &moved, &full);

    *gone = !status && tlc_mpi_worker_ends(h) == h->peers;
    for (size_t i = 0; i < h->peers && !status; i++)
        if (h->box[i].state == TLC_BOX_FULL) /* an answer that nobody needs any more */
            tlc_box_open(&h->box[i], h->peer[i], TLC_TAG_ANSWER);
    if (!status && *gone)
        status = tlc_mail_test(&h->mail, &h->sends, gone);
    return status;
}

/* ---- servers ----------------------------------------------------------------------------------------------------- */

/* The server has ended for this worker. */
static tlc_status tell(tlc_mpi *h, size_t i)
{
    if (h->told[i])
        return TLC_OK;
    h->told[i] = 1;
    return tlc_mpi_send(h, i, (tlc_message){NULL, 0}, TLC_TAG_ANSWER);
}

void tlc_mpi_server_reopen(tlc_mpi *h, size_t i)
{
    h->given[i] = 0;
    tlc_box_open(&h->box[i], h->peer[i], TLC_TAG_PUSH);
}

/* Does the worker of this rank leave? Its push is of no use any more: that step was answered without it, or another
 * server has ended in it. */
static int is_of_leaver(const tlc_mpi *h, size_t i)
{
    return h->pair && h->pair->leaving && h->peer[i] == h->mail.rank;
}

tlc_status tlc_mpi_server_attend(tlc_mpi *h, int *moved)
{
    int full;
    tlc_status status = tlc_mpi_collect(h, moved, &full);

    for (size_t i = 0; i < h->peers && !status; i++) {
        tlc_box *b = &h->box[i];
        if (b->state != TLC_BOX_FULL)
            continue;
        if (!b->len) {
            h->over[i] = 1;
            b->state = TLC_BOX_CLOSED;
            status = tell(h, i);
        } else if (h->leaving) {
            tlc_mpi_server_reopen(h, i);
            status = tell(h, i);
        } else if (is_of_leaver(h, i))
            tlc_mpi_server_reopen(h, i);
    }
    return status;
}
