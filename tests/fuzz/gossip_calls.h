/* SPDX-License-Identifier: MIT
 *
 * A run of gossip: the nodes, the messages between them, and the calls that move the steps on. Each call checks what it
 * promises. What replicas are is known as long as no node took a message that none has made.
 */
#ifndef TLC_FUZZ_GOSSIP_CALLS_H
#define TLC_FUZZ_GOSSIP_CALLS_H

#include "exchange_mail.h"
#include "gossip_plan.h"

enum { HELLOS = MOST_NODES, MOST_MADE = 256 }; /* where messages lie: pushes by sender, then hellos by sender */

/* What a node must have. A number is that of a model; of ECD also that of an estimate, by the frames that made it. 0 of
 * replicas and codecs: not known. */
typedef struct known {
    uint64_t own, replica[MOST_NODES];
    int lost[MOST_NODES]; /* by node, as replica */
    uint64_t codecs;      /* nodes with the same number have the same codecs */
} known;

/* A message that a node made. */
typedef struct made {
    uint64_t digest;
    known before, after; /* of its node */
    int full, stayed;
} made;

typedef struct run {
    gossip_plan plan;
    party node[MOST_NODES];
    known known[MOST_NODES];
    uint32_t nodes;
    mail mail;
    made made[MOST_MADE];
    size_t count;               /* of made */
    uint64_t since[MOST_NODES]; /* a node has its last pushes from this step on */
    uint64_t forgotten;         /* how often it was not known what a node has */
} run;

void run_open(run *r, fuzz_input *in);
void run_close(run *r);

static inline const gossip_row *run_row(const run *r, uint32_t i)
{
    return &r->plan.row[i];
}

void run_push(run *r, uint32_t i, const movement *m);
tlc_status run_pull(run *r, uint32_t i);
void run_again(run *r, uint32_t i, uint64_t step);

/* Checks the mean, if it is known what the replicas are. */
void run_mean(run *r, uint32_t i);

/* Destroys a node and makes it again. */
void run_restart(run *r, uint32_t i);

/* ---- gossip_between.c -------------------------------------------------------------------------------------------- */

void run_hello(run *r, uint32_t i, int full);
tlc_status run_greet(run *r, uint32_t i, unsigned asked); /* bit j: with what lies there as the hello of node j */
void run_lose(run *r, uint32_t i, size_t neighbour);
void run_join(run *r, uint32_t i, uint64_t step, const movement *m); /* NULL: with its own model */
void run_set_codec(run *r, uint32_t i, size_t tensor, size_t codec);

/* A state, and what the node had. */
typedef struct saved {
    letter state;
    uint32_t node;
    known known;
} saved;

void run_save(run *r, uint32_t i, saved *to);
void run_load(run *r, uint32_t i, const saved *const *states, size_t count);

/* ---- gossip_known.c ---------------------------------------------------------------------------------------------- */

/* A number made of two; not 0. */
uint64_t known_chain(uint64_t number, uint64_t next);

/* All replicas of a node are this, or not known, and lost, or not. */
void known_replicas(run *r, uint32_t i, uint64_t replica, int lost);

/* A node took a message, and it is not known what it has made of it. */
void known_forget(run *r, uint32_t i);

/* Checks what can be seen of it. */
void known_check(const run *r, uint32_t i);

made *made_add(run *r, tlc_message message, const known *before);
const made *made_find(const run *r, const letter *l); /* NULL: no node made it, or that is long ago */

/* ---- gossip_finish.c --------------------------------------------------------------------------------------------- */

/* A step of all. */
void run_round(run *r, const movement *m);

/* All send hellos to all. */
void run_meet(run *r, int full);

/* Whatever happened before: all join in the same step, and nobody is refused in the next two. */
void run_finish(run *r);
#endif
