/* SPDX-License-Identifier: MIT
 *
 * A fake of MPI in one process: ranks are threads that take turns, so a run is the same each time. One call of one rank
 * may fail. Ranks that wait for each other for ever are found: after a failure MPI tells them, as an MPI does that
 * notices; without one the test fails. So do collective calls that differ between ranks, and requests that nobody ends.
 */
#ifndef TLC_TEST_FAKE_MPI_H
#define TLC_TEST_FAKE_MPI_H

#include <mpi.h>

enum {
    FAKE_RANKS = 4,
    FAKE_LONG_WAIT = 4,        /* looks of a sender until it hears that a message came */
    FAKE_ERROR = MPI_ERR_OTHER /* of the first call that fails on a rank; later ones have another */
};

/* What MPI_Error_string does. */
typedef enum fake_says { FAKE_TEXT, FAKE_FAILS, FAKE_EMPTY } fake_says;

typedef struct fake_fault {
    int rank, call; /* the call of this rank that fails, from 1 on; 0: none */
    fake_says says;
    int keeps; /* requests that are under way then stay so, whatever a rank does */
} fake_fault;

/* Runs `play` on all ranks to its end. Returns how many calls the rank of the fault has made, or -1: one failed. */
int fake_run(int ranks, fake_fault fault, void (*play)(int rank, int ranks));

MPI_Comm fake_world(void);

/* Has the call failed? */
int fake_was_hit(void);

/* Has this rank been told that MPI fails? */
int fake_was_told(void);

/* What a handle says of it. */
const char *fake_sentence(void);

/* The call in which a rank was told first. NULL: handles do not name it. */
const char *fake_call(int rank);

/* How often this rank has yielded its processor. */
int fake_yields(void);

/* Others go on first, some times. */
void fake_dawdle(int times);

/* Requests of this rank that have not ended. */
int fake_requests(void);
#endif
