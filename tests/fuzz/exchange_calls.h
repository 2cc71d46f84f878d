/* SPDX-License-Identifier: MIT
 *
 * A run of the exchange: the objects, the messages between them, and the calls that move the steps on. Each call checks
 * what it promises.
 */
#ifndef TLC_FUZZ_EXCHANGE_CALLS_H
#define TLC_FUZZ_EXCHANGE_CALLS_H

#include "exchange_mail.h"

enum { MOST_PARTIES = MOST_RANKS + MOST_SERVERS, RESULTS = 32 };

/* What a pull made of the messages that it was given. */
typedef struct result {
    uint64_t given, got;
} result;

typedef struct run {
    exchange_plan plan;
    party party[MOST_PARTIES]; /* ranks or workers, then servers */
    size_t parties;
    mail mail;
    letter held[MOST_SERVERS][MOST_RANKS]; /* pushes that a server took */
    result result[RESULTS];
    size_t results;
    int calm;    /* nothing happened after which sums may be infinite */
    int strange; /* an object took a message or a state that was not made for it */
} run;

void run_open(run *r, fuzz_input *in);
void run_close(run *r);

static inline party *run_server(run *r, uint32_t i)
{
    return &r->party[r->plan.cfg.workers + i];
}

/* How values are made: by whom, and with which weight. */
typedef struct values {
    value_way way;
    uint64_t seed;
    double weight;
} values;

tlc_status run_push(run *r, party *p, values v);
tlc_status run_deliver(run *r, party *server, uint32_t worker);
tlc_status run_reduce(run *r, party *p);
/* with_delta: an answer with these values in place of the means. A rank averages first. */
tlc_status run_answer(run *r, party *owner, int with_delta, values v);
tlc_status run_pull(run *r, party *p);
tlc_status run_cancel(party *rank);
tlc_status run_join(run *r, party *worker, uint64_t step, int ask);
void run_again(run *r, const party *p, uint64_t step);

/* Destroys an object and makes it again. */
void run_restart(run *r, party *p);

/* ---- exchange_finish.c ------------------------------------------------------------------------------------------- */

/* A whole step of all. Returns the failure of the first pull that failed. */
tlc_status run_round(run *r, values v);

/* Whatever happened before: brings all to the same step, and requires that nobody is refused in the next two. */
void run_finish(run *r);
#endif
