/* SPDX-License-Identifier: MIT */
#include "start_line.h"
#include "../lib/measure.h"
#include "ranks.h"
#include <mpi.h>
#include <time.h>

enum { TRIPS = 5, TAG = 77 };

/* Rank 0: returns the seconds of the shortest round trip. *ahead: of that rank. */
static double ask(int rank, double *ahead)
{
    double shortest = 0;

    for (int i = 0; i < TRIPS; i++) {
        double start = measure_now(), there, trip;
        MPI_Send(&start, 1, MPI_DOUBLE, rank, TAG, MPI_COMM_WORLD);
        MPI_Recv(&there, 1, MPI_DOUBLE, rank, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        trip = measure_now() - start;
        if (!i || trip < shortest) {
            shortest = trip;
            *ahead = there - (start + trip / 2);
        }
    }
    MPI_Send(ahead, 1, MPI_DOUBLE, rank, TAG, MPI_COMM_WORLD);
    return shortest;
}

static void tell(double *ahead)
{
    double now;

    for (int i = 0; i < TRIPS; i++) {
        MPI_Recv(&now, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        now = measure_now();
        MPI_Send(&now, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD);
    }
    MPI_Recv(ahead, 1, MPI_DOUBLE, 0, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

start_line start_line_draw(void)
{
    start_line s = {.margin = 0};
    size_t rounds = 1;
    double trip = 0;

    for (size_t reached = 1; reached < ranks_count(); reached *= 2)
        rounds++;
    for (size_t rank = 1; !ranks_me() && rank < ranks_count(); rank++) {
        double ahead = 0, shortest = ask((int)rank, &ahead);
        trip = shortest > trip ? shortest : trip;
    }
    if (ranks_me())
        tell(&s.ahead);
    MPI_Bcast(&trip, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    s.margin = (double)rounds * trip +
               2e-3; /* the last ones know it after as many messages; they may have to wake up */
    return s;
}

double start_line_wait(const start_line *s)
{
    const double awake = 1e-4; /* before the start, as sleep takes longer than asked for */
    double now = measure_now() - s->ahead, last, start, left;

    MPI_Allreduce(&now, &last, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    start = last + s->margin + s->ahead;
    left = start - measure_now() - awake;
    if (left > 0) {
        struct timespec pause = {.tv_sec = (time_t)left};
        pause.tv_nsec = (long)((left - (double)pause.tv_sec) * 1e9);
        (void)nanosleep(&pause, NULL);
    }
    while (measure_now() < start)
        ;
    return start;
}
