/* SPDX-License-Identifier: MIT
 *
 * Promise E6: books of what went into a fleet, what came out, and what must be in its residuals. The sums are binary64.
 * Each binary32 operation of the library is off by at most half a unit in the last place of its result, that is by
 * 2^-24 of its magnitude. The limits are sums of these, and of the rounding of the books.
 *
 * A worker's frame is r + g - r', of its residual before and after the push. By value:
 *
 *     gradients that were not dropped = frames that took part + residual        (E6a)
 *     means, or deltas                = results + residual of the owner         (E6b)
 *
 * The mean of an owner is compared with the frames of those who, as it says, took part. Results in f16 or bf16 are
 * compared with what the owner has sent, since their rounding is not fed back.
 */
#ifndef TLC_TEST_EXCHANGE_LEDGER_H
#define TLC_TEST_EXCHANGE_LEDGER_H

#include "exchange_run.h"

/* Of a worker. The arrays are by value, all tensors one after the other. */
typedef struct worker_book {
    double *given, *taken, *limit;
    double *frame;   /* of the last push */
    double *error;   /* how far it may be off */
    uint64_t step;   /* of the last push; 0: it has ended */
    uint8_t *counts; /* by owner: the push took part there */
} worker_book;

typedef struct ledger {
    fleet *f;
    size_t begin[TENSORS + 1]; /* values before tensor t */
    size_t values;
    worker_book *worker;
    uint32_t *owner;               /* by value: who owns it. With gather 0 */
    double *given, *sent, *limit;  /* of owners, by value */
    double *value, *frame, *error; /* what the last answer was made of; what it sent; how far that may be off */
    uint8_t *ok;                   /* by owner: the last step did not fail there */
    uint64_t compared;             /* with gather: the last step whose results were compared */
    size_t means;                  /* values of means that were compared */
} ledger;

/* The fleet needs residuals of its own. */
void ledger_open(ledger *l, fleet *f);
void ledger_close(ledger *l);

/* fleet_push_one, fleet_reduce_one, fleet_pull_one, with books. */
tlc_status ledger_push(ledger *l, uint32_t worker);
tlc_status ledger_reduce(ledger *l, uint32_t owner);
tlc_status ledger_pull(ledger *l, uint32_t worker);

/* The push of a worker came to an end without a pull: it joined, or the step was cancelled. */
void ledger_settle(ledger *l, uint32_t worker, int all_back);

/* After the pulls of a step: `witness` has the results. cancelled: nobody has. */
void ledger_end(ledger *l, uint32_t witness, int cancelled);

/* All of these, for all. */
void ledger_take_step(ledger *l);
void ledger_step(ledger *l, uint64_t seed); /* with new gradients */

/* Do the books agree with the residuals? A worker whose push is under way is left out. */
void ledger_check(const ledger *l);
#endif
