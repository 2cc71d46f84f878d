/* SPDX-License-Identifier: MIT
 *
 * Promises E1 to E7 of threelc/exchange.h: a fleet is all objects of an exchange in one process, with gradients,
 * results, and the messages between them.
 */
#ifndef TLC_TEST_EXCHANGE_RUN_H
#define TLC_TEST_EXCHANGE_RUN_H

#include "exchange_member.h"

/* ---- a fleet ----------------------------------------------------------------------------------------------------- */

typedef enum fleet_kind { SHARDED, GATHERED, ONE_SERVER, THREE_SERVERS, KIND_COUNT } fleet_kind;
extern const char *const kind_name[KIND_COUNT];

/* NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a name to declare */
#define FOR_EACH_KIND(kind) for (fleet_kind kind = SHARDED; kind < KIND_COUNT; kind++)

enum { TENSORS = 7, OUT_FILL = 0x3c };

/* Tensors of every sort: small ones that share frames, one that is cut, one without values, one of worker 0 alone, one
 * with codecs of its own. Of about 1000 values, and of about 100. */
extern const tlc_tensor large_tensors[TENSORS], small_tensors[TENSORS];

/* A configuration of this many workers that suits the tensors above. */
tlc_exchange_config fleet_config(fleet_kind kind, uint32_t workers, const tlc_tensor *tensors);

typedef enum leg { TO_OWNER, TO_WORKER } leg;

typedef struct fleet fleet;
struct fleet {
    tlc_exchange_config cfg;
    tlc_tensor tensors[TENSORS];
    size_t count;                /* of tensors: those before the first without a name */
    uint32_t workers, lanes;     /* lanes: pushes of a worker. To servers, or to ranks */
    uint32_t owners;             /* servers, or ranks that may own parts; with gather 0 */
    member *worker, *owner;      /* of an all-reduce both are the ranks */
    float **residual;            /* [worker * TENSORS + tensor] of pushes, or NULL: the objects have their own */
    uint8_t **grad, **out;       /* [worker * TENSORS + tensor], at any address */
    double *weight;              /* by worker; 1 */
    int *absent;                 /* by worker: it is not in the round */
    uint32_t *order;             /* in which workers reach a server */
    tlc_message *push;           /* [worker * lanes + lane] */
    tlc_message *answer;         /* by owner */
    tlc_status *came;            /* [owner * workers + worker]: of tlc_server_push; TLC_ERR_CORRUPT if nothing came */
    tlc_status *reduced;         /* by owner: of the last reduce, or average */
    tlc_status *pulled;          /* by worker: of the last pull */
    const float *const **deltas; /* by owner: of the last answer, or NULL */
    float **half;                /* by owner, one part after the other: what fleet_half has made */
    const float ***half_part;    /* by owner and part */
    /* What a message becomes on its way; NULL: it comes as it is. len 0: nothing comes. */
    tlc_message (*via)(fleet *f, leg on, uint32_t from, uint32_t to, tlc_message message);
    /* What an owner makes of the means, which it answers with; NULL: it answers with the means. */
    const float *const *(*delta)(fleet *f, uint32_t owner);
    /* Called before and after each call; or NULL. */
    void (*around)(fleet *f, int before);
    void *arg; /* for these three */
};

/* cfg and tensors are copied. residuals: those of pushes are the fleet's. */
void fleet_open(fleet *f, const tlc_exchange_config *cfg, const tlc_tensor *tensors, int residuals);
void fleet_close(fleet *f);

/* Makes one object: worker i, or server i. */
tlc_status fleet_make(fleet *f, const tlc_exchange_config *cfg, uint32_t i, int server, member *m);

/* Does this worker send the tensor? */
static inline int is_sent(const tlc_tensor *t, uint32_t worker)
{
    return t->only == TLC_NOBODY || t->only == worker;
}

static inline int is_gathered(const fleet *f)
{
    return f->cfg.gather;
}

/* Values from `seed`, different ones for all workers and tensors, and the same on every machine. */
void fleet_gradients(fleet *f, uint64_t seed);
void gradient(uint64_t seed, tlc_dtype dtype, void *grad, size_t n);

/* A call between the two calls of f->around. */
#define FLEET_CALL(f, call)                                                                                            \
    do {                                                                                                               \
        if ((f)->around)                                                                                               \
            (f)->around(f, 1);                                                                                         \
        call;                                                                                                          \
        if ((f)->around)                                                                                               \
            (f)->around(f, 0);                                                                                         \
    } while (0)

/* The three parts of a step. Pushes must succeed; f->came, f->reduced, f->pulled tell the rest. */
void fleet_push(fleet *f);
void fleet_reduce(fleet *f);
void fleet_pull(fleet *f);
void fleet_step(fleet *f, uint64_t seed); /* with new gradients */

/* Deltas of an owner: half of the means. The caller may change f->half[owner] before they are used. */
const float *const *fleet_half(fleet *f, uint32_t owner);

/* What a step of one member is made of. */
tlc_status fleet_push_one(fleet *f, uint32_t worker);
tlc_status fleet_reduce_one(fleet *f, uint32_t owner);
tlc_status fleet_pull_one(fleet *f, uint32_t worker);

/* Every worker has pulled with this status, and has written all of out, or nothing. */
void require_pulled(const fleet *f, tlc_status status);

/* Bytes of tensor t of out and of grad. */
static inline size_t fleet_bytes(const fleet *f, size_t t)
{
    return f->tensors[t].n * dtype_size[f->cfg.dtype];
}

/* All outputs of workers a and b are the same bytes. */
int fleet_same_out(const fleet *f, uint32_t a, uint32_t b);
void fleet_wipe(fleet *f); /* fills all outputs with OUT_FILL */

/* The value i of gradient t of a worker. */
float fleet_grad(const fleet *f, uint32_t worker, size_t t, size_t i);

#endif
