/* SPDX-License-Identifier: MIT
 *
 * How work and memory grow: a scene is run with n, 2 n and 4 n of something, and its calls are measured. From n to 4 n
 * none may take more than 8 times as much, which is an exponent of 1.5; what is quadratic takes 16 times as much.
 */
#ifndef TLC_TEST_GROWTH_H
#define TLC_TEST_GROWTH_H

#include "../support/support.h"

/* A scene of n things, which measures calls by MEASURE. */
typedef void scene(size_t n);

/* Runs it, and requires of each call that is measured that it grows as said above. Prints the exponents. */
void require_linear(const char *what, scene *run, size_t n);

/* Adds the time of this thread that a statement takes to the call `name`. */
#define MEASURE(name, statement)                                                                                       \
    do {                                                                                                               \
        measure_begin();                                                                                               \
        statement;                                                                                                     \
        measure_end(name);                                                                                             \
    } while (0)
void measure_begin(void);
void measure_end(const char *name);

/* Counts the bytes that an object takes, as those of the call `name`. */
extern const tlc_allocator counting_allocator;
void measure_bytes(const char *name);
#endif
