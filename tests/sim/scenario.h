/* SPDX-License-Identifier: MIT
 *
 * What a seed stands for: an algorithm, its ranks, tensors, codecs and settings, and which faults there are.
 */
#ifndef TLC_SIM_SCENARIO_H
#define TLC_SIM_SCENARIO_H

#include "../support/support.h"
#include <threelc/gossip.h>

enum { MOST_RANKS = 64, MOST_NODES = 16, MOST_SERVERS = 4, MOST_TENSORS = 8, MOST_STEPS = 30, GAP = 4 };

typedef enum family {
    FAMILY_SHARDED,  /* all-reduce */
    FAMILY_GATHERED, /* all-reduce with gather */
    FAMILY_SERVERS,  /* parameter servers */
    FAMILY_BACKUP,   /* parameter servers with backup workers */
    FAMILY_GOSSIP,
    FAMILIES
} family;

typedef enum fault_kind {
    FAULT_DELAY, /* messages overtake each other */
    FAULT_REPEAT,
    FAULT_DROP,
    FAULT_ALTER, /* a bit flips */
    FAULT_CUT,
    FAULT_NONFINITE, /* in a gradient or a delta */
    FAULT_HUGE,      /* values whose sums are not finite */
    FAULT_WRONG,     /* messages of other steps, senders, kinds or objects; calls out of turn */
    FAULT_FORGED,    /* pushes with a right checksum and a bad frame */
    FAULT_LATE,      /* servers do not wait for a worker, a node not for a neighbour */
    FAULT_DEATH,
    FAULTS
} fault_kind;

extern const char *const family_names[FAMILIES];
extern const char *const fault_names[FAULTS];

typedef enum value_kind {
    VALUES_SMOOTH,
    VALUES_ZERO,
    VALUES_SPARSE,
    VALUES_DENSE, /* magnitudes from 0.95 to 1 */
    VALUES_TIES,
    VALUES_WIDE, /* many exponents */
    VALUE_KINDS
} value_kind;

typedef struct tensor_plan {
    char name[48];
    size_t n, at;             /* at: of its first value in arrays of all values, with GAP values between tensors */
    const codec_case *own[2]; /* by direction; NULL: not named */
    int theirs;               /* the residual of pushes is the caller's */
    uint32_t only;            /* 0: all workers push it; else the only one that does, + 1 */
    value_kind values;
    int scale; /* values are multiplied by 2^scale */
} tensor_plan;

enum { PUSH, PULL }; /* directions */

/* The graph of gossip: those of tlc_graph_kind, then one with edges and weights of its own. */
enum { GRAPH_BY_HAND = TLC_GRAPH_RANDOM + 1, GRAPHS };

typedef struct scenario {
    uint64_t seed;
    family family;
    uint32_t workers, servers, owners, keep, backup;
    int optimizers; /* of owners: they answer with changes of the model */
    tlc_gossip_kind kind;
    int graph;
    int sum, assume_finite;
    const codec_case *codec[2]; /* of the configuration; pull NULL: the library chooses */
    const codec_case *reserve[2];
    char reserve_text[256];               /* empty: NULL */
    size_t min_n, split_n, count, values; /* values: of arrays of all values, gaps included */
    tensor_plan tensor[MOST_TENSORS];
    tlc_dtype dtype;
    int mixed_dtypes; /* each rank has its own */
    uint32_t steps;
    int weighted;
    uint32_t rate_round;    /* of 1024: who is not in a round */
    uint32_t rate_boundary; /* of 1024: changes of codecs and scales of residuals between steps */
    uint32_t rate_mask;     /* of 1024: calls of mask */
    uint32_t rate_hello;    /* of 1024: steps that begin with hellos of all nodes */
    uint32_t checkpoint;    /* steps from one saved state to the next */
    uint32_t rate[FAULTS];  /* of 1024 */
} scenario;

void scenario_draw(scenario *sc, uint64_t seed);
void scenario_print(const scenario *sc);

static inline int has_servers(const scenario *sc)
{
    return sc->family == FAMILY_SERVERS || sc->family == FAMILY_BACKUP;
}

/* May sums be found infinite, or NaN pass unseen? */
static inline int may_overflow(const scenario *sc)
{
    return sc->rate[FAULT_HUGE] || (sc->assume_finite && sc->rate[FAULT_NONFINITE]);
}

/* The codec that a tensor begins with; *small: it is sent raw in a shared frame. */
const codec_case *scenario_codec(const scenario *sc, size_t tensor, int direction, int *small);

/* Does a tensor keep a residual in this direction? */
int scenario_feedback(const scenario *sc, size_t tensor, int direction);

#endif
