/* SPDX-License-Identifier: MIT
 *
 * The exchange over MPI: handles that carry the messages of threelc/exchange.h between the ranks of a communicator.
 * Library threelc-mpi.
 *
 *   create          once. Collective, and it compares tensors and configurations of all ranks
 *     start         makes and sends the messages of a step, and returns
 *     progress      now and then, while the caller computes: takes what came, goes on with what can go on
 *     wait          ends the step, with its results
 *   destroy         collective
 *
 * Several handles may have a step under way: one for each layer, say, so that the gradients of the last layers travel
 * while those of the first are still computed. MPI moves bytes inside calls only, and so do handles: they start no
 * thread, and nothing is global. Each has a communicator of its own, made by MPI_Comm_dup. Any MPI 3 will do, with any
 * level of thread support; a handle serves one thread at a time.
 *
 * Order: steps of a handle follow each other on all its ranks. Where several have a step under way, ranks wait for them
 * in the same order, or use tlc_mpi_wait_all. Else two ranks may wait for each other.
 *
 * Who owns what: each handle deals tensors smaller than split_n to owners or servers from the first one on. If many
 * handles have a small tensor or two each, the first owner gets nearly all. So give a handle a group of layers, or give
 * each handle a communicator with the ranks in another order (MPI_Comm_split, key).
 *
 * Memory: messages that come need some. A handle takes it when they come, from `alloc` of the exchange, or malloc, and
 * keeps it for later ones.
 *
 * Failure. TLC_ERR_TRANSPORT: a call of MPI failed, and its error handler returned; the handle is of no use any more,
 * and tlc_mpi_outcome has MPI's sentence. When it is destroyed its messages are cancelled; memory that MPI does not let
 * go of even then is not freed. A rank that died is MPI's to report: by default MPI ends the whole job. A start that
 * fails with another status sent nothing: the others wait until it is called again. wait returns what the exchange
 * says, at the end of each function below. After every call that fails, tlc_mpi_outcome has a sentence.
 */
#ifndef THREELC_MPI_H
#define THREELC_MPI_H

#include <mpi.h>
#include <threelc/gossip.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of any kind. Functions with a kind in their name return TLC_ERR_PARAM, or NULL, for a handle of another. */
typedef struct tlc_mpi tlc_mpi;

/* What a handle is made of. Start from tlc_mpi_config_init. */
typedef struct tlc_mpi_config {
    size_t struct_size;
    MPI_Comm comm;                       /* with all ranks that take part. It stays the caller's */
    const tlc_exchange_config *exchange; /* in all-reduce and gossip `workers` is the size of comm, and is not read;
                                            nor is its `outcome` */
    const tlc_tensor *tensors;           /* those that travel together, the same on all ranks */
    size_t count;                        /* how many */
    size_t chunk;         /* longer messages go in pieces: 1 to INT_MAX bytes, the same on all ranks; default 2^30 */
    tlc_outcome *outcome; /* NULL; else why create failed, or advice (tlc_exchange_config). struct_size is set */
} tlc_mpi_config;

/* Sets *cfg to the defaults above. comm: MPI_COMM_NULL where it is set later. TLC_ERR_PARAM: cfg is NULL, or
 * struct_size is smaller than the first field. */
TLC_API tlc_status tlc_mpi_config_init(tlc_mpi_config *cfg, size_t struct_size, MPI_Comm comm);

/* The same with the handle of a communicator in Fortran, which mpi4py has, too (py2f). */
TLC_API tlc_status tlc_mpi_config_init_fortran(tlc_mpi_config *cfg, size_t struct_size, MPI_Fint comm);

/* All `_create` functions are collective: each rank of comm calls one, and all return the same status. TLC_ERR_PARAM:
 * a bad argument, or another function, tensors, codecs or configuration than on rank 0; the outcome says on which rank,
 * and what. TLC_ERR_TRANSPORT: a call of MPI failed, and the outcome says which one; the others hear of it from MPI
 * alone if it was a collective one. Other failures as those of the object (tlc_allreduce_create and others), on any
 * rank. On failure *out does not change. Without cfg or comm, and with a `worker` that is missing or of no use for a
 * server, the others are not told: they wait. */

/* ---- all handles ------------------------------------------------------------------------------------------------- */

/* Does for all handles what can be done without waiting. Handles without a step under way, or NULL, are left alone.
 * What it finds is returned by test and wait. TLC_ERR_PARAM: handles is NULL. */
TLC_API tlc_status tlc_mpi_progress(tlc_mpi *const *handles, size_t count);

/* As tlc_mpi_progress. *done is 1 if the step has ended: then the status is that of tlc_mpi_wait, which need not be
 * called. */
TLC_API tlc_status tlc_mpi_test(tlc_mpi *handle, int *done);

/* Ends the step under way; results are where start said. TLC_ERR_ORDER: none is under way. TLC_ERR_NOMEM: there is no
 * memory for what came; the step is still under way, and goes on with the next call. The others wait meanwhile, so who
 * gives up ends the job (MPI_Abort). Others: as said at start.
 * TLC_ERR_ORDER also on a rank that is worker and server, where it would wait for the rank itself: of the worker,
 * before the server has answered its step; of the server, before the worker has started its step. Nothing changes. */
TLC_API tlc_status tlc_mpi_wait(tlc_mpi *handle);

/* Ends the steps of all handles that have one under way, in the order in which they come to their end. Returns the
 * first status that is not TLC_OK, by index; tlc_mpi_outcome of each handle tells its own. TLC_ERR_ORDER: none is under
 * way, or tlc_mpi_wait would refuse one of them. */
TLC_API tlc_status tlc_mpi_wait_all(tlc_mpi *const *handles, size_t count);

/* Ends a step under way, then frees the handle. Collective, but on NULL. Without memory for what comes it tries until
 * there is some, as others wait for this rank. Workers and servers wait for each other: a worker that starts a step
 * meanwhile gets TLC_ERR_ORDER from wait, and has to destroy its handle, too. On a rank that is both, destroying the
 * worker in a step that its server has not answered ends that server for all workers. */
TLC_API void tlc_mpi_destroy(tlc_mpi *handle);

/* Of the last step, or of the last call that failed: as `_outcome` of the object, of a worker that of the first server
 * at fault. */
TLC_API tlc_status tlc_mpi_outcome(const tlc_mpi *handle, tlc_outcome *outcome);

/* Since the handle was made. struct_size is set by the caller. Steps and residuals: the statistics of the object. */
typedef struct tlc_mpi_stats {
    size_t struct_size;
    uint64_t sent, received; /* bytes through MPI: messages to others, and from others */
    uint64_t messages;       /* that were sent, pieces counted */
    double codec;            /* seconds in calls of the object: compress, average, decompress */
    double waiting;          /* seconds in tlc_mpi_wait and wait_all without anything to do */
} tlc_mpi_stats;
TLC_API tlc_status tlc_mpi_stats_init(tlc_mpi_stats *stats, size_t struct_size);
TLC_API tlc_status tlc_mpi_get_stats(const tlc_mpi *handle, tlc_mpi_stats *stats);

/* ---- all-reduce -------------------------------------------------------------------------------------------------- */

/* Rank i of comm is rank i of the all-reduce; exchange->servers is 0. */
TLC_API tlc_status tlc_mpi_allreduce_create(tlc_mpi **out, const tlc_mpi_config *cfg);

/* Starts a step. grads and weight as in tlc_allreduce_push; the gradients may change as soon as start returns. out[t]:
 * n values of tensor t, perhaps the gradient itself; it belongs to the handle until the step has ended.
 * Failures as tlc_allreduce_push. wait: TLC_ERR_STEP, on all ranks: the step failed, out is as it was, residuals have
 * what was sent; go on with the next step. Any other failure of tlc_allreduce_pull: what came is not what was sent, so
 * memory or network is broken: the handle is of no use any more. */
TLC_API tlc_status tlc_mpi_allreduce_start(tlc_mpi *handle, const void *const *grads, double weight, void *const *out);

/* start with weight 1, and wait. */
TLC_API tlc_status tlc_mpi_allreduce(tlc_mpi *handle, const void *const *grads, void *const *out);

/* For states, codecs, masks and statistics, while no step is under way. It belongs to the handle. NULL: it is of
 * another kind. What its calls refuse, its own `_outcome` tells. */
TLC_API tlc_allreduce *tlc_mpi_allreduce_object(tlc_mpi *handle);

/* The optimizer of a rank that owns parts: writes delta[i], the change of part i of the model, n floats, from the means
 * (tlc_allreduce_part). It is called in progress, test or wait of its handle, once in a step, but not if the step has
 * failed by then; it must not call functions of handles. Another status than TLC_OK fails the step on all ranks, as a
 * delta that is not finite does: they are told that the first delta of this rank is not. */
typedef tlc_status (*tlc_mpi_owner_update)(void *arg, const tlc_allreduce *allreduce, float *const *delta);

/* As tlc_mpi_allreduce_create, with the optimizers at the owners (3LC's servers, on the ranks): out of a step is the
 * change of the whole model, the same bits on all ranks. It is a handle of an all-reduce. When wait returns
 * TLC_ERR_STEP, threelc/exchange.h says at tlc_allreduce_average which owners take their optimizer's step back: after
 * wait the cause is TLC_ERR_NONFINITE and the rank this one, if its delta was at fault.
 * TLC_ERR_PARAM: also if update is NULL, or there is gather. */
TLC_API tlc_status tlc_mpi_owners_create(tlc_mpi **out, const tlc_mpi_config *cfg, tlc_mpi_owner_update update,
                                         void *arg);

/* ---- parameter server -------------------------------------------------------------------------------------------- */

/* With W workers, S servers and P ranks, worker i is rank i, and server i is rank P - S + i. P is W + S if they are
 * different ranks, less if some are both, at least the larger of W and S. A rank that is both creates the worker first,
 * and gives it to tlc_mpi_server_create. In each step it starts the worker, then the server, waits for the server,
 * answers, and waits for the worker. */
TLC_API tlc_status tlc_mpi_worker_create(tlc_mpi **out, const tlc_mpi_config *cfg);

/* Starts a step: as tlc_mpi_allreduce_start, with tlc_worker_push and tlc_worker_pull. The servers answer all workers
 * in all steps; who comes late, with backup workers, gets the answers one by one.
 * wait: TLC_ERR_STEP: the step failed on a server, and its parts of out are as they were. */
TLC_API tlc_status tlc_mpi_worker_start(tlc_mpi *handle, const void *const *grads, double weight, void *const *out);

/* As tlc_mpi_allreduce_object. */
TLC_API tlc_worker *tlc_mpi_worker_object(tlc_mpi *handle);

/* worker: of this rank, if it is both; else NULL. */
TLC_API tlc_status tlc_mpi_server_create(tlc_mpi **out, const tlc_mpi_config *cfg, tlc_mpi *worker);

/* Starts a step: takes pushes until enough workers have pushed, then averages. wait: TLC_OK: tlc_server_part has the
 * means. TLC_ERR_STEP, as tlc_server_reduce: leave the model as it is. In both cases tlc_mpi_server_answer follows.
 * TLC_ERR_ORDER: all workers have destroyed their handles, so there is no step. Any other failure of tlc_server_push:
 * as in an all-reduce, the handle is of no use any more. */
TLC_API tlc_status tlc_mpi_server_start(tlc_mpi *handle);

/* Sends the answer to all workers, as tlc_server_answer. It waits while a worker has not yet received the answer of
 * `keep` steps before. TLC_ERR_ORDER: the step was not waited for, or that worker is the one of this rank, and it has
 * no step under way. */
TLC_API tlc_status tlc_mpi_server_answer(tlc_mpi *handle, const float *const *delta);

/* The optimizer of a server: writes delta[i], the change of part i of the model, n floats, from the means
 * (tlc_server_part). Not called if the step failed. Another status than TLC_OK ends tlc_mpi_server_run. */
typedef tlc_status (*tlc_mpi_update)(void *arg, const tlc_server *server, float *const *delta);

/* Serves until all workers have destroyed their handles. update NULL: workers get the means. A step that failed does
 * not end it. TLC_ERR_NOMEM: there is no memory for what came, or for deltas; call it again, and it goes on.
 * TLC_ERR_PARAM: this rank has a worker, too, whose steps nobody would start meanwhile. */
TLC_API tlc_status tlc_mpi_server_run(tlc_mpi *handle, tlc_mpi_update update, void *arg);

/* As tlc_mpi_allreduce_object. */
TLC_API tlc_server *tlc_mpi_server_object(tlc_mpi *handle);

/* ---- gossip ------------------------------------------------------------------------------------------------------ */

/* cfg->comm has a distributed graph (MPI_Dist_graph_create_adjacent), the same in both directions. Weights are W_ij in
 * units of 1 / TLC_MPI_WEIGHT_ONE, the same for in and out. The node's own weight is what they lack to 1. A graph
 * without weights gets Metropolis weights. Hellos are exchanged: TLC_ERR_PARAM also if W is not symmetric, or models
 * differ. */
#define TLC_MPI_WEIGHT_ONE (1 << 30) /* the weight 1 */
TLC_API tlc_status tlc_mpi_gossip_create(tlc_mpi **out, const tlc_mpi_config *cfg, tlc_gossip_kind kind,
                                         const float *const *model);

/* A communicator of the same ranks with this graph, without weights. Collective. graph->nodes is the size of comm, and
 * is not read. The caller frees the communicator with MPI_Comm_free. All ranks fail together, with the status of the
 * lowest one that fails. TLC_ERR_PARAM: graph or out is NULL, struct_size is wrong, tlc_graph_neighbours refuses the
 * graph, or two ranks have different ones; or comm is MPI_COMM_NULL, which no other rank hears of. TLC_ERR_NOMEM,
 * _TRANSPORT. */
TLC_API tlc_status tlc_mpi_graph_create(MPI_Comm comm, const tlc_graph *graph, MPI_Comm *out);

/* Starts a step: as tlc_gossip_push. The step starts from tlc_gossip_mean, and tlc_gossip_model has its result.
 * wait: as tlc_gossip_pull. */
TLC_API tlc_status tlc_mpi_gossip_start(tlc_mpi *handle, const float *const *moved);

/* Exchanges hellos between two steps; all nodes call it. full: with the whole model, for replicas that are lost, as
 * after tlc_gossip_state_load and tlc_gossip_join. Fails as tlc_gossip_greet, each node by itself. */
TLC_API tlc_status tlc_mpi_gossip_hello(tlc_mpi *handle, int full);

/* As tlc_mpi_allreduce_object. */
TLC_API tlc_gossip *tlc_mpi_gossip_object(tlc_mpi *handle);

#ifdef __cplusplus
}
#endif
#endif
