/* SPDX-License-Identifier: MIT
 *
 * A node of a decentralised training: what the parts of gossip share.
 *
 * A flat model has the values of all tensors, in the order of frames: groups begin at multiples of 16 values, the parts
 * of a group lie end to end. So the frame of a group is decoded in one piece.
 */
#ifndef TLC_GOSSIP_H
#define TLC_GOSSIP_H

#include "../../frames/frame.h"
#include "../sides/receiver.h"
#include "../plan/refusal.h"
#include "../sides/pushing.h"
#include <threelc/gossip.h>

typedef struct tlc_neighbour {
    uint32_t node;
    int lost;
    double weight;
    float *replica; /* flat */
    /* of the message that a call takes */
    tlc_head head;
    tlc_bundle_reader frames;
    int full;        /* a hello has frames */
    uint64_t digest; /* of a hello */
    size_t array;    /* of the entries of this node's state, while it is loaded: the replica, or 0 */
} tlc_neighbour;

/* Of a step of ECD. */
typedef struct tlc_gossip_factors {
    float before, moved;   /* z = before x + moved x_t */
    float estimate, frame; /* estimate = estimate * estimate + frame C(z) */
} tlc_gossip_factors;

struct tlc_gossip {
    tlc_setup setup; /* comes first: tlc_setup_create */
    tlc_pushing push;
    tlc_neighbour *neighbour;
    size_t degree;
    size_t *by_node;  /* the neighbours, by their nodes */
    double weight;    /* of the node itself */
    size_t *place;    /* by tensor: where its values begin in a flat model; TLC_ALL: it has none */
    size_t *group_at; /* by group: the same */
    size_t room;      /* values of a flat model, with gaps, which are 0 */
    /* Flat models. x, own and work have tlc_gossip_hello_size() bytes at least, of this node. */
    float *x;        /* the model */
    float *estimate; /* ECD: what the neighbours think it is; else NULL */
    float *mean;     /* of the tensors in `fresh` */
    float *work;     /* between two pushes: the message of the last hello */
    uint8_t *fresh;  /* by tensor */
    tlc_ctx **whole; /* by group: makes frames with all values, for hellos */
    tlc_report report;
    tlc_exchange_stats stats;
    uint64_t step;
    tlc_gossip_factors factors; /* of the step under way, once it has begun */
    int pushed;                 /* in this step */
};

static inline int tlc_gossip_is_ecd(const tlc_gossip *g)
{
    return g->setup.kind == TLC_EXCHANGE_ECD;
}

/* What the replicas of this node are equal to. */
static inline float *tlc_gossip_own(const tlc_gossip *g)
{
    return g->estimate ? g->estimate : g->x;
}

static inline size_t tlc_gossip_groups(const tlc_gossip *g)
{
    return g->push.sender.group_count;
}

/* A float of the caller, which needs no alignment. */
static inline float tlc_value_at(const float *values, size_t i)
{
    float v;

    memcpy(&v, (const char *)values + i * sizeof v, sizeof v);
    return v;
}

/* The model of tensor t becomes that of the caller. It needs no alignment, which compilers take for granted where they
 * see a float *. */
static inline void tlc_take_model(tlc_gossip *g, size_t t, const void *values)
{
    const size_t n = g->setup.tensors[t].n;

    if (n)
        memmove(g->x + g->place[t], values, n * sizeof *g->x);
}

/* Do the weights of a row add up to 1, as nearly as the arithmetic of any caller gets? */
int tlc_row_valid(double sum);

/* Fills in the outcome of a call. Returns the status. */
tlc_status tlc_gossip_tell(tlc_gossip *g, tlc_status status, const tlc_finding *finding);

/* Does every tensor with values have a pointer? If not, the call is refused. name: of the argument. With DCD a tensor
 * whose frame was given needs none. */
tlc_status tlc_gossip_check_values(const tlc_gossip *g, const char *name, const float *const *values);

/* The first tensor of a flat model that is not finite, or TLC_ALL. */
size_t tlc_gossip_nonfinite(const tlc_gossip *g, const float *flat);

/* The means must be computed again. */
void tlc_gossip_stir(tlc_gossip *g);

/* model = the frames of all groups, which are valid. */
void tlc_gossip_decode(const tlc_gossip *g, tlc_bundle_reader frames, float *model);

/* The bytes of the largest hello of a node with this many neighbours. */
uint64_t tlc_gossip_hello_size(const tlc_gossip *g, size_t degree);
#endif
