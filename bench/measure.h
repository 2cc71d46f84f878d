/* SPDX-License-Identifier: MIT
 *
 * Times. What is compared is measured in rounds: one pass of each operation after the other, so that what disturbs the
 * machine disturbs them alike; medians over the rounds are compared.
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
    size_t warmup; /* passes before the clock starts, beside the one that everything gets */
} operation;

/* Seconds of a pass. */
typedef struct timing {
    double median, best;
} timing;

enum { MAX_OPERATIONS = 16 };

/* At least so many seconds, and at least 5 rounds. */
bool measure(const operation *operations, size_t count, double seconds, timing *timings, size_t *rounds, char *why);
#endif
