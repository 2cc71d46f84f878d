/* SPDX-License-Identifier: MIT
 *
 * What calls of the fake do besides their work: ranks take turns in them, and they fail.
 */
#ifndef TLC_TEST_FAKE_TURNS_H
#define TLC_TEST_FAKE_TURNS_H

#include "fake_mpi.h"

/* The rank whose turn it is. */
int fake_rank(void);

/* The head of every call: MPI_SUCCESS, or what it returns instead. */
int fake_begin(void);

/* This call found nothing: others may go on first. MPI_SUCCESS, or an error if nobody ever will. */
int fake_stall(void);

/* Something has happened for which others may wait. */
void fake_moved(void);

/* Has MPI given up? */
int fake_is_broken(void);

/* A communicator of this rank, as a number. */
int fake_comm(MPI_Comm comm);

/* Bytes of values. */
int fake_size(MPI_Datatype type, int count);

/* Requests that have not ended. */
int fake_requests(void);
#endif
