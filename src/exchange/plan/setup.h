/* SPDX-License-Identifier: MIT
 *
 * What all objects of the exchange begin with: the checked configuration, the tensors, and who owns what.
 */
#ifndef TLC_SETUP_H
#define TLC_SETUP_H

#include "../../kernels/kernels.h"
#include "../findings/finding.h"
#include "ownership.h"

#define TLC_RANKS_MAX (UINT32_C(1) << 20)

typedef struct tlc_setup_tensor {
    const char *name;
    const char *codec[2]; /* by direction; the caller's string, which may be gone after create */
    int common[2];        /* the codec is that of the configuration */
    int small[2];         /* sent raw, in a shared frame */
    float *residual;      /* the caller's, or NULL */
    size_t n;
    uint32_t pusher; /* 0: all workers push it; else the only one that does, + 1 */
} tlc_setup_tensor;

/* What states have of a tensor, while they are loaded. */
typedef struct tlc_loaded {
    size_t seen;       /* the first state that has it, + 1 */
    size_t known;      /* the first of those of the latest step whose history is known, + 1 */
    size_t covered;    /* values of this owner's part that they have */
    size_t state;      /* the last state that has a push of it, + 1 */
    const char *codec; /* of that push: codec_len bytes of the state */
    size_t codec_len;
} tlc_loaded;

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
    size_t *by_name;    /* a hash table of indices + 1; 0: empty */
    size_t names;       /* its size, a power of 2 */
    tlc_loaded *loaded; /* by tensor */
    tlc_ownership ownership;
    uint64_t fingerprint;
    size_t message_bound; /* the most bytes of a message that the object takes */
    const tlc_kernels *k;
    tlc_memory memory;
} tlc_setup;

/* Does a codec, or one that it may be switched to, have error feedback by default? */
int tlc_setup_feedback(const tlc_setup *x, size_t tensor, tlc_direction direction);

/* A hash of all that must be equal on all machines. */
uint64_t tlc_setup_fingerprint(const tlc_setup *x);

/* The seed of a context: a function of the seed, the rank, the direction, the tensor's name and its first value. */
uint64_t tlc_setup_seed(const tlc_setup *x, const tlc_ownership_part *part, tlc_direction direction);

/* The place of a name in by_name, empty if no tensor has it. */
size_t *tlc_setup_slot(const tlc_setup *x, const char *name, size_t len);

/* The tensor of this name, or TLC_ALL. */
size_t tlc_setup_find(const tlc_setup *x, const char *name, size_t len);

/* May an object use these codecs, with ';' between them? Those of gossip have no bias and no error feedback. NULL: yes.
 * No, if one of them is not a codec. */
int tlc_setup_allows(const tlc_setup *x, const char *codecs);

/* The roles of the others: those who push, and the owners. */
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
