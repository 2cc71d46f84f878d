/* SPDX-License-Identifier: MIT
 *
 * What all handles have. The four kinds differ in what they do with messages, which is in their tlc_mpi_role.
 */
#ifndef TLC_MPI_HANDLE_H
#define TLC_MPI_HANDLE_H

#include "../common/structs.h"
#include "mail.h"

typedef enum tlc_mpi_state {
    TLC_MPI_IDLE,
    TLC_MPI_PUSHES,  /* waits for pushes */
    TLC_MPI_ANSWERS, /* waits for the messages that end the step */
    TLC_MPI_HELLOS,  /* of gossip */
    TLC_MPI_SENDING, /* the result is there, but messages have not left yet */
    TLC_MPI_REDUCED, /* a server has the means; tlc_mpi_server_answer comes next */
    TLC_MPI_BROKEN   /* nothing can be done any more */
} tlc_mpi_state;

typedef struct tlc_mpi_role {
    const char *kind; /* "an all-reduce" */
    const char *push; /* the codec of pushes if none is given */
    /* In PUSHES or ANSWERS: does what can be done. *moved becomes 1 if it was anything. TLC_ERR_NOMEM, or
     * TLC_ERR_TRANSPORT. */
    tlc_status (*advance)(tlc_mpi *h, int *moved);
    tlc_status (*outcome)(const tlc_mpi *h, tlc_outcome *outcome);
    size_t (*message_bound)(const tlc_mpi *h); /* of messages to the object */
    /* While messages of a step leave: lets others of this rank take them. *moved as above. NULL: there are none. */
    tlc_status (*attend)(tlc_mpi *h, int *moved);
    /* May this rank wait for the step? TLC_ERR_ORDER: it would wait for itself. NULL: it may. */
    tlc_status (*may_wait)(tlc_mpi *h);
    /* Takes leave of the others, and waits until the handle may be freed. NULL: it may be at once. */
    void (*leave)(tlc_mpi *h);
    /* Frees the object, and what the kind has taken. */
    void (*free)(tlc_mpi *h);
} tlc_mpi_role;

struct tlc_mpi {
    const tlc_mpi_role *role;
    tlc_mpi_state state;
    tlc_status result; /* of the last step; BROKEN: why */
    int fresh;         /* the result was not fetched yet */
    tlc_mail mail;
    tlc_sends sends;   /* of the step under way */
    size_t peers;      /* whom it exchanges messages with: ranks, servers, workers or neighbours */
    int *peer;         /* their ranks in the communicator */
    tlc_box *box;      /* by peer */
    tlc_message *from; /* by peer: arguments of the object */
    tlc_message *to;
    size_t count; /* tensors */
    size_t *n;    /* values of each */
    char **name;  /* and their names, in one allocation after the pointers */
    void **out;   /* of the step under way */
    union {
        tlc_allreduce *allreduce;
        tlc_worker *worker;
        tlc_server *server;
        tlc_gossip *gossip;
    } object;
    int gather;                  /* all-reduce */
    tlc_message answer;          /* all-reduce: this rank's own */
    tlc_mpi_owner_update update; /* all-reduce: the optimizer of this rank's parts; NULL: others get the means */
    void *update_arg;
    float **delta;         /* all-reduce with `update`: what it writes */
    tlc_sends *answers;    /* server: those of the last `keep` steps */
    uint32_t keep, backup; /* server */
    unsigned char *given;  /* server, by worker: the message in the box is a push that the object has */
    unsigned char *told;   /* server, by worker: it was told that the server has ended for it */
    unsigned char *over;   /* worker: the server has ended; server: the worker leaves. By peer */
    int leaving;           /* worker, server: it is about to be freed */
    int both;              /* worker: this rank is a server, too */
    tlc_mpi *pair;         /* on a rank that is worker and server: the other handle, with the same communicator */
    double codec, waiting; /* seconds */
    char sentence[200];    /* BROKEN: why; empty: ask the object */
    tlc_status refused;    /* the last call, and `refusal` says why; TLC_OK: the object knows */
    size_t refused_tensor; /* or TLC_ALL */
    char refusal[200];
};

/* ---- making a handle (make.c, agree.c) --------------------------------------------------------------------------- */

/* One rank's part in a collective `_create`. */
typedef struct tlc_mpi_making {
    tlc_mpi *handle;              /* NULL: there was no memory */
    tlc_mpi *pair;                /* the worker whose communicator it takes; or NULL */
    tlc_mpi_config cfg;           /* the caller's, complete */
    tlc_exchange_config exchange; /* the same */
    MPI_Comm comm;                /* of the handle; MPI_COMM_NULL: the ranks have not met yet */
    int rank, ranks;              /* rank -1: not known yet */
    tlc_status status;            /* why this rank cannot go on; it goes on with those calls that all ranks make */
    tlc_outcome found;            /* the same in words; the object writes here, too */
    int error; /* of a collective call of MPI that failed: the others cannot be told; or MPI_SUCCESS */
} tlc_mpi_making;

/* This rank cannot go on: with this sentence, unless it cannot already. Returns m->status. */
tlc_status tlc_mpi_make_refuse(tlc_mpi_making *m, tlc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The code that a call of MPI returned which does not communicate: TLC_ERR_TRANSPORT if it failed, as a refusal.
 * Returns m->status. */
tlc_status tlc_mpi_make_local(tlc_mpi_making *m, int code, const char *call);

/* The same of a collective call. If it failed the caller is told, and no other call may communicate. TLC_OK, or
 * TLC_ERR_TRANSPORT. */
tlc_status tlc_mpi_make_check(tlc_mpi_making *m, int code, const char *call);

/* Tells the caller why this rank cannot go on. Returns m->status. */
tlc_status tlc_mpi_make_tell(const tlc_mpi_making *m);

/* The end of a `_create` that others do not know of. cfg: NULL is allowed. Returns TLC_ERR_PARAM. */
tlc_status tlc_mpi_make_alone(const tlc_mpi_config *cfg, const char *sentence);

/* Copies the configuration, or takes the communicator of `pair`. Fails if there is no communicator, and then the caller
 * is told; the others are not. */
tlc_status tlc_mpi_make_import(tlc_mpi_making *m, const tlc_mpi_config *cfg, tlc_mpi *pair);

/* The same, copies all that the caller gave, and makes a handle. Other failures are in m->status. */
tlc_status tlc_mpi_make_begin(tlc_mpi_making *m, const tlc_mpi_role *role, const tlc_mpi_config *cfg, tlc_mpi *pair);

/* A tensor of the caller, complete. */
tlc_tensor tlc_mpi_tensor_at(const tlc_mpi_config *cfg, size_t i);

/* Gives the handle its peers: the ranks first, first + 1, ..., or those of the list. */
void tlc_mpi_make_peers(tlc_mpi_making *m, size_t peers, int first, const int *list);

/* What all `_create` functions do first with the others, so that ranks which call different ones find out: duplicates
 * the communicator, compares the kind with that of rank 0, then the status of all ranks. */
tlc_status tlc_mpi_make_meet(tlc_mpi_making *m, const char *kind);

/* Compares what the caller gave with what rank 0 has. m->status is TLC_OK on all ranks. */
tlc_status tlc_mpi_make_compare(tlc_mpi_making *m);

/* Compares the status of all ranks alone: that of the lowest rank that fails, if any, becomes that of all. */
tlc_status tlc_mpi_agree(tlc_mpi_making *m);

/* Meets and compares, `times` times, as often as all others do. Success: *out is the handle. Failure: it is freed. */
tlc_status tlc_mpi_make_end(tlc_mpi_making *m, const char *kind, int times, tlc_mpi **out);

/* The end of a failure that all know, or of a collective call of MPI. Frees the handle, and returns the status. */
tlc_status tlc_mpi_make_fail(tlc_mpi_making *m, tlc_status status);

/* ---- steps (handle.c) -------------------------------------------------------------------------------------------- */

/* A call is refused; h NULL is allowed. tensor: TLC_ALL for none. Returns the status. */
tlc_status tlc_mpi_refuse(tlc_mpi *h, tlc_status status, size_t tensor, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* TLC_ERR_PARAM: h is NULL, or not of this kind. Otherwise forgets what was refused before. call: its name. */
tlc_status tlc_mpi_is_kind(tlc_mpi *h, const tlc_mpi_role *role, const char *call);

/* The same. TLC_ERR_ORDER: a step is under way. Or it is broken. */
tlc_status tlc_mpi_may_start(tlc_mpi *h, const tlc_mpi_role *role, const char *call);

/* The same for a step with results: keeps their pointers until it ends. TLC_ERR_PARAM: one is missing. */
tlc_status tlc_mpi_may_push(tlc_mpi *h, const tlc_mpi_role *role, const char *call, void *const *out);

/* The peer to whom this rank sends in turn k. Ranks begin with different peers: if all sent to the same one first, its
 * link would be full while others are idle. */
size_t tlc_mpi_turn(const tlc_mpi *h, size_t k);

/* Sends to a peer, for this step. */
tlc_status tlc_mpi_send(tlc_mpi *h, size_t peer, tlc_message message, tlc_tag tag);

/* Polls all open boxes. *full: none is open any more. */
tlc_status tlc_mpi_collect(tlc_mpi *h, int *moved, int *full);

/* The step has this result, and ends as soon as its messages have left. */
void tlc_mpi_end(tlc_mpi *h, tlc_status result);

/* The handle is broken from now on. sentence NULL: that of MPI, if it failed, or of the object. Returns the status. */
tlc_status tlc_mpi_break(tlc_mpi *h, tlc_status status, const char *sentence);

/* Room for the deltas of this many parts: pointers, then the values. NULL: no memory. values: of part i. */
float **tlc_mpi_take_deltas(const tlc_mpi *h, size_t parts, size_t (*values)(const tlc_mpi *h, size_t i));

/* Frees all, but what MPI may still read or write. Others are not told. */
void tlc_mpi_free(tlc_mpi *h);

/* Yields the processor when there is nothing to do. */
void tlc_mpi_idle(void);

/* Seconds, and those since `start` added to a sum: in the library's float mode, whatever mode the caller has. */
double tlc_mpi_now(void);
void tlc_mpi_count(double *seconds, double start);

/* Calls a function of the object, and counts the time. */
#define TLC_MPI_TIMED(h, status, call)                                                                                 \
    do {                                                                                                               \
        const double start = tlc_mpi_now();                                                                            \
        (status) = (call);                                                                                             \
        tlc_mpi_count(&(h)->codec, start);                                                                             \
    } while (0)
#endif
