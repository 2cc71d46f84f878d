/* SPDX-License-Identifier: MIT
 *
 * Lets all ranks begin at the same time. A barrier does not: who leaves it first waits for the others in the step, on a
 * link with latency as long as a message takes.
 */
#ifndef MPI_START_LINE_H
#define MPI_START_LINE_H

typedef struct start_line {
    double ahead;  /* seconds that the clock of this rank is ahead of that of rank 0 */
    double margin; /* seconds from asking all ranks to the start */
} start_line;

/* Collective: compares clocks by round trips of rank 0 with each other rank. Clocks drift, so it is to be repeated. */
start_line start_line_draw(void);

/* Collective: sleeps until all begin. Returns when that was, on the clock of this rank (measure_now). A rank that comes
 * late has begun late. */
double start_line_wait(const start_line *s);
#endif
