/* SPDX-License-Identifier: MIT */
#include "ranks.h"
#include "../lib/explain.h"
#include "../lib/program.h"
#include <mpi.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

size_t ranks_me(void)
{
    int rank;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return (size_t)rank;
}

size_t ranks_count(void)
{
    int count;

    MPI_Comm_size(MPI_COMM_WORLD, &count);
    return (size_t)count;
}

bool ranks_ask(bool ok, char *why)
{
    int count = (int)ranks_count(), here = ok ? count : (int)ranks_me(), first;

    MPI_Allreduce(&here, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (first == count)
        return true;
    MPI_Bcast(why, WHY_SIZE, MPI_CHAR, first, MPI_COMM_WORLD);
    return false;
}

void ranks_wait(void)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    MPI_Request request;
    int done = 0;

    for (MPI_Ibarrier(MPI_COMM_WORLD, &request); !done;) {
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
        if (!done)
            nanosleep(&pause, NULL);
    }
}

void ranks_abort(const char *program, const char *why)
{
    fflush(stdout);
    program_fail(program, EXIT_FAILED, why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
    exit(EXIT_FAILED);
}

double ranks_on_core(bool one_machine)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    MPI_Comm machine;
    double share;
    int here;

    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
    MPI_Comm_size(machine, &here);
    MPI_Comm_free(&machine);
    share = (double)(one_machine ? (int)ranks_count() : here) / (double)(cores > 0 ? cores : 1);
    return share > 1 ? share : 1;
}
