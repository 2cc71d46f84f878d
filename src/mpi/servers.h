/* SPDX-License-Identifier: MIT
 *
 * What workers and servers know of each other: who is where, and how they part.
 */
#ifndef TLC_MPI_SERVERS_H
#define TLC_MPI_SERVERS_H

#include "handle.h"

/* Worker i is rank i, server i is rank first_server + i. */
typedef struct tlc_mpi_places {
    const char *kind;
    int first_server;
    int any_both, is_both; /* a rank, this rank is worker and server */
} tlc_mpi_places;

/* If no such places exist, m->status is TLC_ERR_PARAM. */
tlc_mpi_places tlc_mpi_places_of(tlc_mpi_making *m);

int tlc_mpi_is_worker(const tlc_mpi *h);

/* Opens the boxes of all servers that have not ended for this worker. What lies in them is not needed any more. */
void tlc_mpi_worker_open(tlc_mpi *h);

/* Sees which servers have ended. Returns how many. */
size_t tlc_mpi_worker_ends(tlc_mpi *h);

/* A worker tells all servers, once, that it leaves. *gone: all have ended for it, and nothing is on its way. */
tlc_status tlc_mpi_worker_say_bye(tlc_mpi *h);
tlc_status tlc_mpi_worker_see_off(tlc_mpi *h, int *gone);

/* A server takes messages, and lets workers go. */
tlc_status tlc_mpi_server_attend(tlc_mpi *h, int *moved);

/* A server takes the next push of worker i. */
void tlc_mpi_server_reopen(tlc_mpi *h, size_t i);
#endif
