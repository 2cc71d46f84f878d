/* SPDX-License-Identifier: MIT
 *
 * Measures times. Operations that are compared are measured in rounds. A round has one pass of each operation, so a
 * busy machine slows all of them. The medians over the rounds are compared.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stddef.h>

/* A pass: pass(subject, which). false: it failed, and why says so. */
typedef struct operation {
    bool (*pass)(const void *subject, int which, char *why);
    const void *subject;
    int which;
    size_t warmup; /* passes before the clock starts; there is always one more */
} operation;

/* Seconds that a pass takes. */
typedef struct timing {
    double median, best;
} timing;

enum { MAX_OPERATIONS = 16 };

/* Measures for at least `seconds` and at least 5 rounds. */
bool measure(const operation *operations, size_t count, double seconds, timing *timings, size_t *rounds, char *why);

double measure_now(void); /* seconds of a clock */
/* Of at least one round. It sorts them. */
timing measure_summary(double *seconds, size_t rounds);
#endif
