/* SPDX-License-Identifier: MIT
 *
 * What one rank cannot do no rank does: a file that only one of them cannot read, say.
 */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H

#include "../explain.h"
#include <mpi.h>

/* Whether all ranks are ok. Else why (WHY_SIZE bytes) is that of the first one that is not, on all ranks. */
static inline bool ranks_agree(MPI_Comm comm, bool ok, char *why)
{
    int rank, ranks, first;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    first = ok ? ranks : rank;
    MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, comm);
    if (first == ranks)
        return true;
    MPI_Bcast(why, WHY_SIZE, MPI_CHAR, first, comm);
    return false;
}
#endif
