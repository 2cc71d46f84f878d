/* SPDX-License-Identifier: MIT
 *
 * What calls of the fake do besides their work: ranks take turns in them, and they fail.
 */
#ifndef TLC_TEST_FAKE_TURNS_H
#define TLC_TEST_FAKE_TURNS_H

#include "fake_mpi.h"

/* The rank whose turn it is. */
int fake_rank(void);

/* The head of every call: MPI_SUCCESS, or what it returns instead. call: its name; NULL: handles do not say it. */
int fake_begin(const char *call);

/* The same for a call in which others take part. */
int fake_begin_in(MPI_Comm comm, const char *call);

/* A request of this communicator has failed. */
void fake_fails_in(int comm);

/* This call found nothing: others may go on first. */
void fake_pause(void);

/* The same. MPI_SUCCESS, or an error if nobody ever will. */
int fake_stall(void);

/* Something has happened for which others may wait. */
void fake_moved(void);

/* Has MPI given up? */
int fake_is_broken(void);

/* Does MPI keep what is under way? */
int fake_keeps(void);

/* A communicator of this rank, as a number. */
int fake_comm(MPI_Comm comm);

/* Bytes of values. */
int fake_size(MPI_Datatype type, int count);

/* The end of a run: all requests have ended, but those that MPI keeps. */
void fake_end_requests(void);
#endif
