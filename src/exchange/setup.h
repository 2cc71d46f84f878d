/* SPDX-License-Identifier: MIT
 *
 * What all objects of the exchange begin with: the checked configuration, the tensors, and who owns what.
 */
#ifndef TLC_SETUP_H
#define TLC_SETUP_H

#include "../kernels/kernels.h"
#include "finding.h"
#include "ownership.h"

#define TLC_RANKS_MAX (UINT32_C(1) << 20)

/* Which algorithm messages belong to. The numbers are part of the layout of messages and states. */
typedef enum tlc_exchange_kind {
    TLC_EXCHANGE_ALLREDUCE = 1,
    TLC_EXCHANGE_GATHER = 2, /* all-reduce with gather */
    TLC_EXCHANGE_SERVERS = 3,
    TLC_EXCHANGE_DCD = 4, /* gossip */
    TLC_EXCHANGE_ECD = 5
} tlc_exchange_kind;

typedef struct tlc_setup_tensor {
    const char *name;
    const char *codec[2]; /* by direction; the caller's string, which may be gone after create */
    int common[2];        /* the codec is that of the configuration */
    int small[2];         /* sent raw, in a shared frame */
    float *residual;      /* the caller's, or NULL */
    size_t n;
    uint32_t only;
} tlc_setup_tensor;

/* Begins with what refused calls need (refusal.h). */
typedef struct tlc_setup {
    tlc_report *report; /* what `_outcome` tells: a worker has one for each server. While an object is made: its own */
    uint32_t reports;   /* how many */
    const uint64_t *step;    /* the step under way; NULL while an object is made */
    tlc_exchange_config cfg; /* its strings are the caller's, which may be gone after create */
    tlc_exchange_kind kind;
    tlc_role role;   /* of this object */
    uint32_t rank;   /* of this object: worker, server, rank or node */
    uint32_t owners; /* who may own parts: owner i is server i or rank i. With gather and gossip there is one, which is
                        nobody */
    tlc_setup_tensor *tensors;
    size_t count;
    size_t *by_name; /* a hash table of indices + 1; 0: empty */
    size_t names;    /* its size, a power of 2 */
    size_t *seen;    /* by tensor, while states are loaded: the first state that has it, + 1 */
    size_t *covered; /* by tensor, while states are loaded: values of this owner's part that they have */
    tlc_ownership ownership;
    uint64_t fingerprint;
    const tlc_kernels *k;
    tlc_memory memory;
} tlc_setup;

/* Takes memory for an object of `size` bytes, which begins with its setup: the caller's configuration and tensors,
 * checked, and the plan of who owns what. The rest is 0. kind ALLREDUCE becomes GATHER if the configuration says so.
 * On failure *report tells why, and nothing needs to be freed. The object's report and step are still to be set. */
tlc_status tlc_setup_create(void **object, size_t size, const tlc_exchange_config *cfg, tlc_exchange_kind kind,
                            tlc_role role, uint32_t rank, const tlc_tensor *tensors, size_t count, tlc_report *report);

/* The end of a call that makes an object. x: its setup; NULL if there is none. Tells the caller why, if status is an
 * error, or else if the codec of answers starves. Returns the status. */
tlc_status tlc_setup_end(const tlc_exchange_config *cfg, const tlc_setup *x, tlc_status status, tlc_report *report);

/* Checks the configuration (setup_check.c): TLC_ERR_PARAM, TLC_ERR_UNSUPPORTED. */
tlc_status tlc_setup_check(const tlc_setup *x);

/* "an all-reduce", "gossip" ... */
const char *tlc_kind_words(tlc_exchange_kind kind);

/* Does a codec, or one that it may be switched to, have error feedback by default? */
int tlc_setup_feedback(const tlc_setup *x, size_t tensor, tlc_direction direction);

/* The seed of a context: a function of the seed, the rank, the direction, the tensor's name and its first value. */
uint64_t tlc_setup_seed(const tlc_setup *x, const tlc_ownership_part *part, tlc_direction direction);

/* The tensor of this name, or TLC_ALL. */
size_t tlc_setup_find(const tlc_setup *x, const char *name, size_t len);

static inline int tlc_is_gossip(tlc_exchange_kind kind)
{
    return kind == TLC_EXCHANGE_DCD || kind == TLC_EXCHANGE_ECD;
}

/* May an object use these codecs, with ';' between them? Those of gossip have no bias and no error feedback. NULL: yes.
 * No, if one of them is no codec. */
int tlc_setup_allows(const tlc_setup *x, const char *codecs);

/* How the others are called: those who push, and the owners. */
static inline tlc_role tlc_setup_pusher(const tlc_setup *x)
{
    if (tlc_is_gossip(x->kind))
        return TLC_ROLE_NODE;
    return x->kind == TLC_EXCHANGE_SERVERS ? TLC_ROLE_WORKER : TLC_ROLE_RANK;
}

static inline tlc_role tlc_setup_owner(const tlc_setup *x)
{
    return x->kind == TLC_EXCHANGE_SERVERS ? TLC_ROLE_SERVER : TLC_ROLE_RANK;
}

/* Fills in what `_outcome` tells. TLC_ERR_PARAM: no outcome, or its struct_size is too small. */
tlc_status tlc_setup_outcome(const tlc_setup *x, const tlc_report *r, tlc_outcome *outcome);
#endif
