/* SPDX-License-Identifier: MIT
 *
 * Promise P7: runs that are made in different ways, and a journal of all that each one gives.
 */
#ifndef TLC_TEST_P7_RUN_H
#define TLC_TEST_P7_RUN_H

#include "../support/float_modes.h"
#include "../support/support.h"

/* How a run is made. The results may not depend on it. */
typedef struct way {
    tlc_isa isa;
    const runner *runner;
    float_mode mode;
} way;

/* The way that the others are compared with. */
extern const way plain;

/* Enters the float mode of a way. */
void way_enter(const way *w);

/* Leaves it. Returns 0 if somebody has changed the mode meanwhile. */
int way_leave(void);

/* A call in the float mode of the way. The call must not change the mode. */
#define IN_MODE(way, call)                                                                                             \
    do {                                                                                                               \
        way_enter(way);                                                                                                \
        tlc_status status_ = call;                                                                                     \
        int kept_ = way_leave();                                                                                       \
        require_status_is(#call, status_, TLC_OK, __FILE__, __LINE__);                                                 \
        require(kept_);                                                                                                \
    } while (0)

typedef struct entry {
    const char *what;
    size_t start;
} entry;

typedef struct journal {
    uint8_t *bytes;
    size_t len, room, count;
    entry entries[128];
} journal;

/* A new entry of `size` bytes, to be filled. */
uint8_t *note(journal *j, const char *what, size_t size);
void require_same_journal(const journal *a, const journal *b);

/* What a run compresses. The data are made once for all ways. */
typedef struct input {
    const char *codec;
    tlc_dtype dtype;
    size_t n, steps;
    int feedback, assume_finite;
    data_kind kind;
    uint8_t *grad; /* steps rows */
    float *sum;    /* to which decoded values are added */
} input;

void input_open(input *in);
void input_close(input *in);

typedef struct bench {
    journal want, got;
    uint8_t *frame;
} bench;

/* Room for inputs of at most n values and this many steps. */
bench bench_open(size_t n, size_t steps);
void bench_close(bench *b);

/* Compresses and decodes all steps, and saves the state. */
void run(const input *in, const way *w, journal *j, uint8_t *frame);
#endif
