/* SPDX-License-Identifier: MIT
 *
 * Runs of parameter servers. Workers and servers are driven as programs with this library would be. servers.c has the
 * events, servers_worker.c and servers_server.c the calls and their checks, servers_away.c workers that fall behind,
 * die, and come back, servers_ends.c what becomes of their states.
 */
#ifndef TLC_SIM_SERVERS_H
#define TLC_SIM_SERVERS_H

#include "network.h"
#include "oracle.h"
#include "states.h"

/* A worker is away from step `from` on. It is back in step `until`, with a push of this step. */
typedef enum away_kind { NEVER, SLEEPS, DIES } away_kind;

typedef struct away {
    away_kind kind;
    uint64_t from, until; /* until: UINT64_MAX: it does not come back */
    int pushed;           /* it pushed in step `from` before; else it did nothing in this step */
    uint32_t reached;     /* bit i: this push reached server i in time */
} away;

typedef enum worker_phase { WORKER_BETWEEN, WORKER_WAITS, WORKER_AWAY, WORKER_FINISHED } worker_phase;

/* What came from a server. */
typedef struct worker_slot {
    blob *bytes;
    condition condition;
    uint32_t tries;
    int filled;
} worker_slot;

typedef struct worker_node {
    object *o;
    pushed push;
    worker_phase phase;
    away away;
    int joined; /* it listens in this step */
    worker_slot in[MOST_SERVERS];
    blob *mine[MOST_SERVERS];  /* the push, while it has no answer */
    uint32_t forged;           /* bit i: the push to server i has a bad frame */
    blob *older[MOST_SERVERS]; /* the push of the step before */
    uint8_t *out;
    float *model, *momentum;
    checkpoint saved; /* the last one; step 0: none */
} worker_node;

/* What an answer says. */
typedef struct verdict {
    int failed;
    blame blame; /* causes CAUSE(TLC_OK): nobody is */
    uint8_t taken[MOST_RANKS / 8];
} verdict;

/* A push that the network holds until its step has been answered. */
typedef struct held {
    blob *bytes;
    uint64_t step;
} held;

typedef struct server_node {
    object *o;
    int reduced;
    blob **push; /* by worker: of this step */
    uint32_t came;
    held *held;                   /* by worker */
    uint64_t *last_taken;         /* by worker */
    blob *answer[MOST_STEPS + 2]; /* by step */
    verdict verdict[MOST_STEPS + 2];
    uint64_t kept_from;                        /* the first step whose answer the object may keep */
    float *owned_before, *owned_after, *given; /* residuals around the answer, and what was answered */
} server_node;

typedef struct cluster {
    run *run;
    group group, plain_group; /* plain_group: of the observer */
    worker_node *worker;
    server_node *server;
    uint32_t workers, servers;
    uint64_t first, last; /* steps that are played */
    const object **objects;
    const pushed **pushes;
    object *observer;              /* a worker that pulls each step at once; it has the true model, in binary32 */
    float *result[MOST_STEPS + 2]; /* its results, by step */
    float *model[MOST_STEPS + 2];  /* the true model after each step */
} cluster;

void cluster_open(cluster *w, run *r, uint32_t workers, uint32_t servers);
void cluster_close(cluster *w);
void cluster_place(cluster *w); /* after *w was moved to another place */

/* States of all that played to the end. */
typedef struct endings {
    checkpoint made[MOST_RANKS + MOST_SERVERS];
    const checkpoint *worker[MOST_RANKS], *server[MOST_SERVERS];
    uint32_t workers, servers;
} endings;

/* Saves all states, and makes another cluster of them, that plays the rest of the steps. */
void cluster_end(cluster *w);

/* ---- away -------------------------------------------------------------------------------------------------------- */

void draw_away(cluster *w);

/* Does the server wait for the push of this worker? */
int is_in_time(const cluster *w, uint32_t worker, uint32_t server, uint64_t step);

/* Brings workers back whose time has come. */
void bring_back(cluster *w);

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* Pushes, and sends what is in time. */
void worker_push(cluster *w, worker_node *n);
/* Returns 0 if a message was bad: it must be fetched again. */
int worker_pull(cluster *w, worker_node *n);
void worker_join(cluster *w, worker_node *n, uint64_t step, int with_taken);
void worker_refuse_calls(const cluster *w, worker_node *n);

/* Checks the status of a pull, and counts. */
void check_pull(cluster *w, object *o, tlc_status status, const tlc_message *from);

/* model += results, where the step did not fail. */
void apply_results(const cluster *w, uint64_t step, const float *result, float *model);

/* ---- servers ----------------------------------------------------------------------------------------------------- */

/* Gives a whole push to a server. */
void server_push(cluster *w, server_node *n, uint32_t worker, uint64_t step, blob *bytes);
/* Gives a damaged one: an error and no change. */
void server_push_damaged(cluster *w, server_node *n, const blob *bytes);
void server_reduce(cluster *w, server_node *n);
void server_answer(cluster *w, server_node *n);
void server_refuse_calls(cluster *w, server_node *n);

/* Fetches an answer from the object. Checks whether it is kept. NULL: it is not. */
blob *server_again(cluster *w, server_node *n, uint64_t step);

/* Who may be missing before a server is ready. */
static inline uint32_t backup_of(const cluster *w)
{
    return w->run->sc.backup < w->workers ? w->run->sc.backup : 0;
}

static inline server_node *owner_of(const cluster *w, const part_place *part)
{
    return &w->server[part->owner];
}

static inline const verdict *verdict_of(const cluster *w, uint32_t server, uint64_t step)
{
    return &w->server[server].verdict[step];
}

#endif
