/* SPDX-License-Identifier: MIT
 *
 * The objects that exchange.c, exchange_state.c and gossip.c drive: made of bytes of the input, called in one way, and
 * checked after each call.
 */
#ifndef TLC_FUZZ_EXCHANGE_PARTY_H
#define TLC_FUZZ_EXCHANGE_PARTY_H

#include "fuzz.h"
#include <threelc/gossip.h>

enum { MOST_TENSORS = 4, MOST_RANKS = 3, MOST_SERVERS = 2, FILL = 0x3c };

#define LAST_STEP (UINT64_C(1) << 62) /* that an object begins with */

typedef enum party_role { RANK, WORKER, SERVER, NODE } party_role;

extern const char *const party_names[MOST_TENSORS];

/* What all objects of a run have in common. */
typedef struct exchange_plan {
    tlc_exchange_config cfg;
    tlc_tensor tensor[MOST_TENSORS];
    size_t count;
    int mixed;                      /* each object has another dtype */
    int has_residual[MOST_TENSORS]; /* the residual of the pushes is the caller's */
} exchange_plan;

/* Where a rank or a worker is in its step. */
typedef enum rank_turn { IDLE, PUSHED, REDUCED } rank_turn;

typedef struct party {
    const exchange_plan *plan;
    party_role role;
    uint32_t index;
    tlc_dtype dtype;
    void *it;
    rank_turn turn;
    /* by tensor: exactly n values */
    uint8_t *grad[MOST_TENSORS], *out[MOST_TENSORS];
    float *residual[MOST_TENSORS]; /* or NULL: the object's own */
    float **delta;                 /* by part: what it has answered with; or NULL */
    size_t deltas;
} party;

/* A function that ranks, workers, servers and nodes of gossip have: ON(p, step, p->it). */
#define ON(p, call, ...)                                                                                               \
    ((p)->role == RANK     ? tlc_allreduce_##call(__VA_ARGS__)                                                         \
     : (p)->role == WORKER ? tlc_worker_##call(__VA_ARGS__)                                                            \
     : (p)->role == NODE   ? tlc_gossip_##call(__VA_ARGS__)                                                            \
                           : tlc_server_##call(__VA_ARGS__))

static inline uint64_t party_step(const party *p)
{
    return ON(p, step, p->it);
}

/* A configuration and tensors. Any bytes make valid ones. */
void plan_read(exchange_plan *plan, fuzz_input *in);

static inline party_role plan_role(const exchange_plan *plan) /* of those who push */
{
    return plan->cfg.servers ? WORKER : RANK;
}

/* Makes an object; not of a node, see gossip_plan.h. */
void party_open(party *p, const exchange_plan *plan, party_role role, uint32_t index);
void party_forget_deltas(party *p); /* what party->delta holds */
void party_close(party *p);

/* Before and after the call that makes an object, which alone may allocate: fills *p and what the call takes; takes
 * what the call made. */
void party_begin(party *p, const exchange_plan *plan, party_role role, uint32_t index, tlc_exchange_config *cfg,
                 tlc_tensor *tensor);
void party_made(party *p, tlc_status status, void *it);

/* Ways to make values. The first ones keep all sums finite. */
typedef enum value_way { ZEROS, SPARSE, DENSE, TIES, SCALED, ONE_NAN, HUGE_VALUES, NOBODY, WAYS } value_way;

/* Fills p->grad. */
void party_fill(party *p, value_way way, uint64_t seed);
uint64_t party_gradients(const party *p); /* a digest of p->grad */
void fill_floats(float *x, size_t n, value_way way, uint64_t seed);

/* All that a failed call must not change. */
uint64_t party_digest(const party *p);

/* Checks what a call said, and that it changed nothing if it failed with anything but TLC_ERR_STEP. */
void party_check(const party *p, tlc_status status, uint64_t before);

/* The outcome that party_check saw last. What it asked afterwards may have left another one. */
extern tlc_outcome party_told;

/* The parts that the party owns; 0 for workers. */
size_t party_parts(const party *p);
tlc_part party_part(const party *p, size_t i);

/* Fills p->out; checks that it is still so, or that the part is. */
void party_clear(party *p);
void party_require_clear(const party *p);
void party_require_part_clear(const party *p, const tlc_part *part);

/* Checks that all results are finite, if they were not narrowed. */
void party_require_finite(const party *p);

/* A number for all results, the same on every machine. */
uint64_t party_results(const party *p);

/* The state, in a buffer of exactly its size. len 0: a step is under way. */
tlc_message party_save(const party *p);

/* Checks that this is the state. */
void party_require_state(const party *p, tlc_message state);

tlc_status party_scale(const party *p, float factor); /* residual_scale; not of a node */
#endif
