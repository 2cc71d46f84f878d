/* SPDX-License-Identifier: MIT
 *
 * The objects of a run: ranks of an all-reduce, workers, servers, nodes of gossip. What all have in common is called in
 * one way, and each object is followed by what its step, counters and codecs should be.
 */
#ifndef TLC_SIM_OBJECT_H
#define TLC_SIM_OBJECT_H

#include "run.h"

typedef enum object_role { ROLE_RANK, ROLE_WORKER, ROLE_SERVER, ROLE_NODE } object_role;

extern const char *const role_names[]; /* as sentences have them */

/* How an object differs from those of the run, so that they do not take its messages. */
typedef enum strangeness {
    NO_STRANGER,
    OTHER_TENSORS, /* one more */
    OTHER_NAME,
    OTHER_N,
    OTHER_ONLY,
    OTHER_PUSH, /* codec */
    OTHER_PULL,
    OTHER_SUM,
    OTHER_WORKERS,   /* one more */
    OTHER_ALGORITHM, /* of gossip: the other kind */
    STRANGENESSES
} strangeness;

/* A part of a tensor, and its place in arrays of all values. */
typedef struct part_place {
    uint32_t owner;
    size_t index; /* as the owner counts */
    size_t tensor, first, n, at;
} part_place;

/* The edges of a node of gossip. */
typedef struct edges {
    size_t degree;
    uint32_t neighbour[MOST_NODES];
    double weight[MOST_NODES + 1]; /* the last one is the node's own */
} edges;

/* Those who exchange. A run goes on with another group when ranks are lost. */
typedef struct group {
    run *run;
    uint32_t workers, servers, owners; /* owners: who may have parts; 0 with gather */
    uint32_t only[MOST_TENSORS];       /* that of tlc_tensor + 1; 0: all push */
    strangeness stranger;              /* how its objects differ from those of the run */
    int plain;                         /* results are in binary32 */
    part_place *part;                  /* by owner */
    size_t parts;
    size_t begin[MOST_RANKS + 1]; /* owner i has parts begin[i] .. begin[i + 1] - 1 */
    const edges *edges;           /* of gossip, by node */
    const float *model;           /* that nodes start with, all values */
} group;

typedef struct object {
    run *run;
    const group *group;
    object_role role;
    uint32_t rank;
    void *it;
    tlc_dtype dtype;
    const codec_case *codec[2][MOST_TENSORS]; /* in use, by direction */
    int feedback[2][MOST_TENSORS];
    uint64_t step;               /* that it should be in */
    tlc_exchange_stats expected; /* what its counters should be */
    float *residual;             /* of pushes, all values; those of tensors that are not `theirs` are not used */
} object;

/* tlc_allreduce_FUNCTION(o->it, ...), or that of a worker, a server or a node */
#define OBJECT(o, function, ...)                                                                                       \
    ((o)->role == ROLE_RANK     ? tlc_allreduce_##function((o)->it, __VA_ARGS__)                                       \
     : (o)->role == ROLE_WORKER ? tlc_worker_##function((o)->it, __VA_ARGS__)                                          \
     : (o)->role == ROLE_NODE   ? tlc_gossip_##function((o)->it, __VA_ARGS__)                                          \
                                : tlc_server_##function((o)->it, __VA_ARGS__))

/* A codec that is not known, after states of several ranks were loaded. */
extern const codec_case unknown_codec;

void object_destroy(object *o);

/* Asks the owners for their parts, and checks that they cover each tensor once. */
void group_learn_parts(group *g, object *const *owners, uint32_t count);

static inline const part_place *first_part(const group *g, uint32_t owner)
{
    return g->part + g->begin[owner];
}

tlc_exchange_stats object_stats(const object *o);
tlc_outcome object_outcome(const object *o, uint32_t server);
tlc_status object_ask_outcome(const object *o, uint32_t server, tlc_outcome *outcome); /* any arguments */
tlc_status object_scale(object *o, float factor);
tlc_status object_set_codec(object *o, size_t tensor, int direction, const char *codec);
tlc_part object_part(const object *o, size_t i);
tlc_status object_load(object *o, const tlc_message *states, size_t count);
tlc_status object_salvage(object *o, const tlc_message *states, size_t count); /* of a run of which states are lost */

/* Saves the state, which must be possible. The bytes belong to the run. */
tlc_message object_save(object *o);
/* Tries to save the state into a buffer that is large enough. */
tlc_status object_try_save(object *o, size_t *written);

/* Checks step, counters and the gaps between the residuals. */
void object_check(const object *o);

/* Sets one of the gradients that this worker pushes to NULL. Returns 0 if there is none. */
int hide_gradient(const object *o, uint64_t draw, const void **grads);

/* Is tensor t one of those that this worker pushes? */
static inline int object_pushes(const object *o, size_t t)
{
    return !o->group->only[t] || o->group->only[t] == o->rank + 1;
}

/* ---- what a call says about its failure -------------------------------------------------------------------------- */

#define CAUSE(status) (1u << (status))
/* What a bad frame of forge.h is. */
#define BAD_FRAME (CAUSE(TLC_ERR_VERSION) | CAUSE(TLC_ERR_UNSUPPORTED))
#define ANYONE (TLC_NOBODY - 1)

typedef struct blame {
    unsigned causes; /* CAUSE() of those that are right */
    uint32_t rank;   /* TLC_NOBODY; or ANYONE: any rank */
    size_t tensor;   /* TLC_ALL: not checked */
    uint64_t got;    /* the step of a message of another step, or 0 */
    const char *who; /* "worker" or "server"; NULL: not checked, but of ranks and nodes */
} blame;

static inline blame blame_of(unsigned causes, uint32_t rank, size_t tensor, uint64_t got, const char *who)
{
    return (blame){.causes = causes, .rank = rank, .tensor = tensor, .got = got, .who = who};
}

/* Checks the outcome of the last call. Returns it. */
tlc_outcome check_outcome(const object *o, uint32_t server, tlc_status status, blame b);

/* ---- calls that must fail ---------------------------------------------------------------------------------------- */

/* What a failed call must not change. */
typedef struct frozen {
    uint64_t step, residual, owned, out, state;
    tlc_status saves;
    tlc_exchange_stats stats;
    const void *place;
    size_t size;
} frozen;

/* out: an array of results, or NULL. */
frozen freeze(object *o, const void *out, size_t size);
void check_frozen(object *o, const frozen *before, const char *call);

/* Checks that a call failed with this status and changed nothing. */
#define must_refuse(o, call, status)                                                                                   \
    do {                                                                                                               \
        const frozen before_ = freeze(o, NULL, 0);                                                                     \
        const tlc_status got_ = call;                                                                                  \
        must((o)->run, CALLS, got_ == (status), "%s: %s instead of %s", #call, tlc_status_string(got_),                \
             tlc_status_string(status));                                                                               \
        check_frozen(o, &before_, #call);                                                                              \
    } while (0)

#endif
