/* SPDX-License-Identifier: MIT
 *
 * Runs of gossip. Each node is driven as a program with this library would be: it greets, takes the mean, pushes,
 * sends, waits, pulls. gossip.c has the events, gossip_plan.c the graph and who hears whom, gossip_step.c the calls of
 * a step, gossip_greet.c hellos and joins, gossip_oracle.c what models must be, gossip_wrong.c what must be refused,
 * gossip_ends.c what becomes of states.
 */
#ifndef TLC_SIM_GOSSIP_H
#define TLC_SIM_GOSSIP_H

#include "network.h"
#include "states.h"
#include "values.h"

typedef enum node_phase {
    NODE_BETWEEN, /* two steps */
    NODE_GREETS,  /* it waits for hellos */
    NODE_WAITS,   /* it waits for pushes */
    NODE_AWAY,
    NODE_FINISHED
} node_phase;

/* A node is away from step `from` on. In step `until` it joins. */
typedef enum absence_kind { ALWAYS_HERE, SLEEPING, DYING } absence_kind;

typedef struct absence {
    absence_kind kind;
    uint64_t from, until; /* until: UINT64_MAX: it does not come back */
    int pushed;           /* it pushed in step `from` before, and pulls nothing; else it did nothing in this step */
    uint32_t reached;     /* bit i: this push reached node i */
} absence;

/* What came from a neighbour for one call. */
typedef struct inbox {
    blob *bytes;
    int filled, gone; /* gone: it will not come, as the neighbour is dead */
    condition condition;
    uint32_t tries;
} inbox;

enum { PUSHES, HELLOS, NOTES };

enum { ROOM = MOST_STEPS + 2 }; /* steps, and the one after the last */

typedef struct node {
    object *o;
    const edges *edges;
    node_phase phase;
    absence away;
    inbox *in[NOTES];        /* by step and neighbour */
    blob *sent[NOTES][ROOM]; /* by step: what this node made, or NULL */
    float *model[ROOM];      /* at the beginning of a step, all values; NULL: not known */
    float *estimate[ROOM];   /* of ECD: what replicas of this node are then. Of DCD the model */
    int stayed[ROOM];        /* the node stayed where it was */
    size_t at_fault[ROOM];   /* the tensor that it told then */
    int failed[ROOM];        /* its push has no frames */
    int is_full[ROOM];       /* its hello has the model */
    uint32_t lost;           /* bit i: neighbours[i] is lost */
    float *moved;
    uint64_t kept_from; /* the first step whose push the object may keep */
    int has_pushed;     /* in the step under way */
    checkpoint saved;   /* the last one; step 0: none */
} node;

typedef struct gossip {
    run *run;
    group group;
    node *node;
    uint32_t nodes;
    uint64_t first, last; /* steps that are played */
    uint64_t together;    /* at the beginning of this step no node has lost another; 0: none */
} gossip;

static inline inbox *inbox_of(const node *n, int kind, uint64_t step, size_t neighbour)
{
    return &n->in[kind][step * n->edges->degree + neighbour];
}

static inline int is_lost(const node *n, size_t neighbour)
{
    return n->lost >> neighbour & 1;
}

static inline node *neighbour_of(const gossip *w, const node *n, size_t i)
{
    return &w->node[n->edges->neighbour[i]];
}

/* Which neighbour this node is; degree: none. */
size_t place_of(const node *n, uint32_t neighbour);

/* ---- the plan ---------------------------------------------------------------------------------------------------- */

/* The edges of all nodes. */
edges *draw_edges(run *r, uint32_t nodes);

/* Who sleeps or dies, and when. */
void draw_absences(gossip *w);

/* Is this node there when the step begins? */
int is_here(const gossip *w, uint32_t rank, uint64_t step);
/* Does it leave within this step? */
int leaves(const gossip *w, uint32_t rank, uint64_t step);
/* Does it join in this step? */
int comes_back(const gossip *w, uint32_t rank, uint64_t step);
/* Does what `from` says at the beginning of this step reach `to`? */
int hears_hello(const gossip *w, uint32_t to, uint32_t from, uint64_t step);
/* And its push? */
int hears_push(const gossip *w, uint32_t to, uint32_t from, uint64_t step);
/* Must `to` take a full hello, as it came back, or `from`, or missed a push? */
int needs_hello(const gossip *w, uint32_t to, uint32_t from, uint64_t step);
/* Do all nodes greet in this step? */
int all_greet(const gossip *w, uint64_t step);

/* ---- what models must be ----------------------------------------------------------------------------------------- */

/* A finite model: that of MOST_RANKS in step 0 is what all begin with. */
float *draw_model(run *r, uint32_t rank, uint64_t step);

/* Makes the result of the local step, from the mean in n->moved. Returns how many tensors are not finite, and one of
 * them. */
size_t draw_moved(const gossip *w, node *n, size_t *tensor);

/* Decodes the push of a step, checks what was sent, and notes model and estimate of the step after it. finite: are all
 * moved values? */
void note_frames(gossip *w, node *n, const blob *push, int finite);

/* May a step fail, as values become too large? */
int is_huge(const gossip *w, const node *n);

/* Checks the object's model. */
void check_model(const gossip *w, const node *n, uint64_t step);

/* Checks the mean, and notes it as what local steps begin with. */
void check_mean_of_models(const gossip *w, node *n);

/* ---- calls ------------------------------------------------------------------------------------------------------- */

/* Makes the hello of this step. */
void node_hello(gossip *w, node *n, int full);
/* Takes hellos. Returns 0 if one was bad: it must be fetched again. */
int node_greet(gossip *w, node *n);
void node_lose(gossip *w, node *n, size_t i);
void node_join(gossip *w, node *n, uint64_t step);
/* Checks who is lost. */
void check_lost(const gossip *w, const node *n);

void node_push(gossip *w, node *n);
/* Returns 0 if a message was bad: it must be fetched again. */
int node_pull(gossip *w, node *n);

/* Compares a push that the object keeps with the one that it made. */
void check_again(gossip *w, const node *n, uint64_t step);

/* Calls that must fail now. */
void node_refuse_calls(const gossip *w, node *n);

/* Is the message of neighbours[i] one of those that a call waits for? */
int waits_for(const gossip *w, const node *n, int kind, size_t i);

/* Tries wrong messages before the right ones. */
void try_wrong_messages(gossip *w, node *n, int kind, tlc_message *from);

/* Puts a NaN into the push of a neighbour, which pull takes: so its replica is lost. Returns which, or the degree. */
size_t spoil_push(gossip *w, const node *n, tlc_message *from);

/* Gives damaged messages to the call, and forgets them. Returns 0 if there were any. */
int take_damaged(gossip *w, node *n, int kind, const tlc_message *from);

/* ---- ends -------------------------------------------------------------------------------------------------------- */

void gossip_open(gossip *w, run *r, uint32_t nodes);
void gossip_close(gossip *w);

/* Saves all states, and makes other nodes of them, that play the rest of the steps. Returns 0 if there are no more. */
int gossip_end(gossip *w);

#endif
