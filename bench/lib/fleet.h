/* SPDX-License-Identifier: MIT
 *
 * All machines of an exchange in one process. The caller carries no bytes: messages stay where their senders made them.
 *
 * One by one, only rank 0 and the servers are there during a step. Each other machine is made for its call and is gone
 * after it; its messages are kept. In this way many machines need little memory. All but the residuals of owners begin
 * anew in each step, so each is the first one.
 */
#ifndef BENCH_FLEET_H
#define BENCH_FLEET_H

#include "owner_step.h"
#include "shapes.h"
#include <stdint.h>
#include <threelc/exchange.h>

/* OWNERS: an all-reduce whose owners have the optimizer. */
typedef enum algorithm { ALL_REDUCE = 1, GATHER = 2, SERVER = 4, OWNERS = 8 } algorithm;

enum { MAX_RANKS = 1024 };

typedef struct fleet_options {
    algorithm algorithm;
    size_t ranks;   /* or workers */
    size_t servers; /* beside them, for SERVER */
    size_t owners;  /* the most ranks that own parts, for ALL_REDUCE and OWNERS; 0: all */
    bool one_by_one;
    const char *codec;
    int assume_finite;
    tlc_isa isa;
    uint64_t seed;
} fleet_options;

/* A piece of a tensor that has one owner. */
typedef struct fleet_part {
    size_t tensor, first, n, owner;
    float *mean, *residual; /* n values, in the memory of the owner; NULL: nobody owns it, or there is no residual */
} fleet_part;

typedef struct fleet {
    fleet_options options;
    const shape_list *model;
    size_t receivers;       /* of pushes: the ranks, or the servers */
    tlc_allreduce **member; /* by rank */
    tlc_worker **worker;    /* or by worker, */
    tlc_server **server;    /* and by server; NULL: no servers, or the machine is not there */
    float **residual;       /* by rank: of all tensors at their offsets; one by one, all but rank 0 have the same. NULL:
                               the codec keeps none */
    owner_step *step;       /* by receiver, for OWNERS */
    tlc_message *push;      /* push[r * receivers + i]: from rank r to receiver i */
    tlc_message *answer;    /* by receiver; len 0: it owns nothing */
    tlc_message *came;      /* the arguments of a call */
    const tlc_message *frames; /* of the answers of rank 0, for its next fleet_reduce; NULL: it makes them */
    tlc_tensor *tensors;
    tlc_allocator alloc; /* of objects */
    /* one by one: */
    unsigned char **kept_push, **kept_answer; /* by rank, by receiver: messages of machines that are gone */
    size_t kept_bytes;                        /* of the last pushes of a rank that were kept */
    float **kept_residual;                    /* by receiver: of its parts */
} fleet;

/* Residuals of pushes are 0. They may be written before the first push. Small tensors have residuals of their own. The
 * model must outlive the fleet. Whether or not it succeeds, the fleet is to be closed. */
bool fleet_open(fleet *f, const shape_list *model, const fleet_options *options, char *why);
void fleet_close(fleet *f);

/* The tensors that are sent raw, several in one frame. */
bool fleet_is_small(const shape *s);

/* The tensors of a rank, with room for model->count. residual: of all tensors at their offsets; NULL: none. */
void fleet_describe(const shape_list *model, float *residual, tlc_tensor *tensors);

/* All parts, by owner. With GATHER these are the tensors, and nobody owns them. The caller frees them. NULL: no
 * memory. */
fleet_part *fleet_parts(const fleet *f, size_t *count);

/* Begins a step. */
bool fleet_begin(fleet *f, char *why);

/* The calls of a step, in this order. Each is made for all machines before the next one is; one by one, pulls only for
 * rank 0. grads, out: a pointer for each tensor. fleet_reduce is for ALL_REDUCE and OWNERS, fleet_serve for SERVER: a
 * server takes all pushes and makes its answer. */
bool fleet_push(fleet *f, size_t rank, const void *const *grads, char *why);
bool fleet_reduce(fleet *f, size_t rank, char *why);
bool fleet_serve(fleet *f, size_t server, char *why);
bool fleet_pull(fleet *f, size_t rank, void *const *out, char *why);

/* Machines: the ranks, or the workers and then the servers. Bytes that one sends to others in a step. */
size_t fleet_machines(const fleet *f);
uint64_t fleet_sent(const fleet *f, size_t machine);
/* The same since the start, as the machine itself counted it. */
uint64_t fleet_counted(const fleet *f, size_t machine);

/* Bytes of all objects with their residuals, if they are not made one by one. It makes one of each kind and counts.
 * SIZE_MAX: they cannot be made. */
size_t fleet_memory(const shape_list *model, const fleet_options *options);

/* Allocates, and adds the bytes to *sum. */
tlc_allocator fleet_counter(size_t *sum);
#endif
