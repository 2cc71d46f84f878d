/* SPDX-License-Identifier: MIT
 *
 * Decentralised training: DCD-PSGD and ECD-PSGD (Tang et al., "Communication compression for decentralized training",
 * 2018, Algorithms 1 and 2). There is no server and no common model. Each node has a model x of its own, float32, and
 * sends compressed changes of it to its neighbours in a connected graph. It keeps a replica of the model of each
 * neighbour.
 *
 *   node                                      neighbours, in each step
 *     mean <- own model, replicas               the sum of W_ij x_j
 *     moved = mean - gamma * gradient           by the caller
 *     push -> one message, the same for all
 *     pull <- from[i], of each neighbour        replicas become the neighbours' models
 *
 * W is symmetric, its entries are not negative, and its rows add up to 1. It may differ from what tlc_graph_neighbours
 * makes. The result of a training is the mean of the models of all nodes.
 *
 * DCD: with z = moved - x and the frames C(z), the model x and all its replicas become x + C(z), bit for bit.
 * ECD: the model x becomes moved. Replicas are estimates of it, which the node keeps of itself, too. In step s let t =
 * s + 1. With z = (1 - t/2) x + (t/2) moved, estimates become (1 - 2/t) estimate + (2/t) C(z).
 *
 * In the configuration `workers` is the number of nodes, `push` the codec. The codecs, also those of tensors and of
 * `reserve`, must have no bias and no error feedback: qsgd, random-sparse, natural with random rounding,
 * stochastic-ternary, raw. dtype is TLC_F32. servers, owners, backup, gather, sum and `pull` are not used and must be 0
 * or NULL. Tensors have neither `pull` nor `residual`, and `only` is TLC_NOBODY.
 *
 * Units, buffers, failure and the promises E1 to E7 are those of threelc/exchange.h.
 */
#ifndef THREELC_GOSSIP_H
#define THREELC_GOSSIP_H

#include <threelc/exchange.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TLC_GOSSIP_CODEC "qsgd:bits=8" /* where no codec of pushes is given: without bias and error feedback */

/* A node: it has a model, and a replica of the model of each neighbour. */
typedef struct tlc_gossip tlc_gossip;

/* The algorithm of gossip. */
typedef enum tlc_gossip_kind {
    TLC_GOSSIP_DCD = 0, /* differences of models are sent */
    TLC_GOSSIP_ECD = 1  /* extrapolations are sent */
} tlc_gossip_kind;

/* node: 0 .. workers - 1. neighbours: degree different nodes, in any order. weights[i], of neighbours[i], is above 0,
 * weights[degree] is the node's own and at least 0; they add up to 1, to 2^-20. model[t]: the n values of tensor t to
 * start with, finite, the same on all nodes. Failures as tlc_worker_create; TLC_ERR_NONFINITE: a value of the model. */
TLC_API tlc_status tlc_gossip_create(tlc_gossip **out, const tlc_exchange_config *cfg, tlc_gossip_kind kind,
                                     uint32_t node, const uint32_t *neighbours, const double *weights, size_t degree,
                                     const tlc_tensor *tensors, size_t count, const float *const *model);
TLC_API void tlc_gossip_destroy(tlc_gossip *g); /* NULL is allowed */

/* Makes a message for the neighbours, between two steps: what tlc_gossip_greet compares. full: with the whole model (of
 * ECD the estimate), for neighbours that lost their replica. The message is valid until the next hello or push. A hello
 * is not needed, but it finds mistakes before they cost a training. TLC_ERR_ORDER: a step is under way. */
TLC_API tlc_status tlc_gossip_hello(tlc_gossip *g, int full, tlc_message *to_all);

/* Takes hellos. from[i]: of neighbours[i]; len 0: none. Checks that tensors and codecs are equal, that the neighbour
 * has the same weight for the edge, that its weights add up to 1, that it is in the same step, and that its model is
 * the replica here; if it is lost, the model is not compared. With a full hello its model becomes the replica.
 * TLC_ERR_PARAM, _ORDER, _NONFINITE (a model) and those of messages: tlc_gossip_outcome says which neighbour and what.
 * Nothing changes. */
TLC_API tlc_status tlc_gossip_greet(tlc_gossip *g, const tlc_message *from);

/* The sum of W_ij x_j of a tensor, the node's own included: the values to start the local step from. It is computed as
 * x_i + the sum of W_ij (x_j - x_i) in binary32, neighbours in the order of create; so the mean of equal models is
 * this model, but for the sign of zeros. If a difference overflows, it is not finite. Valid until the next pull, greet,
 * lose, join or state_load. NULL: no such tensor, it has no values, or a push was not followed by a pull. */
TLC_API const float *tlc_gossip_mean(tlc_gossip *g, size_t tensor);

/* The model of this node, until the next push, join or state_load. NULL: no such tensor, or it has no values. */
TLC_API const float *tlc_gossip_model(const tlc_gossip *g, size_t tensor);

/* Takes the result of the local step, moved[t]: n values, never written, perhaps the model or the mean itself.
 * Changes the own model, and makes the message for all neighbours. If a value is not finite, or what becomes of it, the
 * call succeeds and the node stays where it is in this step: its model does not change, the message says so, and the
 * neighbours go on (tlc_gossip_outcome tells).
 * TLC_ERR_ORDER: the last push was not followed by a pull. */
TLC_API tlc_status tlc_gossip_push(tlc_gossip *g, const float *const *moved, tlc_message *to_all);

/* The same where changes were quantized elsewhere, as on a GPU. frames[i]: the frame of z of pushed part i, as
 * threelc/frames.h makes it; len 0: it is compressed as always. With DCD a tensor that has a frame needs no values: its
 * entry of moved may be NULL.
 * TLC_ERR_PARAM: also for a frame of another codec, dtype or n, or a damaged one. */
TLC_API tlc_status tlc_gossip_push_frames(tlc_gossip *g, const float *const *moved, const tlc_message *frames,
                                          tlc_message *to_all);

/* As tlc_worker_pushed_part. Each part is a whole tensor. */
TLC_API size_t tlc_gossip_pushed_parts(const tlc_gossip *g);
TLC_API tlc_status tlc_gossip_pushed_part(const tlc_gossip *g, size_t i, tlc_part *part);

/* Ends the step. from[i]: the push of neighbours[i]; that of a lost one is not read. Failures as tlc_worker_pull: fetch
 * the message again, or call tlc_gossip_lose; then repeat the call. TLC_OK, and `cause` of the outcome is
 * TLC_ERR_NONFINITE: a neighbour stayed where it was, or (the messages of this library do not cause it) its replica is
 * not finite any more, so it is lost now. */
TLC_API tlc_status tlc_gossip_pull(tlc_gossip *g, const tlc_message *from);

/* The push of a step before, or of the one under way. Failures as tlc_server_again. At least 2 are kept. */
TLC_API tlc_status tlc_gossip_again(const tlc_gossip *g, uint64_t step, tlc_message *to_all);

/* neighbours[i] is gone. From now on the own model (of ECD the own estimate) stands in its place in the mean, and pull
 * does not wait for it, until tlc_gossip_greet takes a full hello of it. TLC_ERR_PARAM: no such neighbour. */
TLC_API tlc_status tlc_gossip_lose(tlc_gossip *g, size_t i);
TLC_API int tlc_gossip_lost(const tlc_gossip *g, size_t i); /* 1: neighbours[i] is lost */

/* The node came late, or comes back: it goes on with `step`, from model[t] (n finite values each), or if model is
 * NULL, from its own. The estimate of ECD becomes equal to it. All replicas are lost: neighbours send full hellos of
 * this step, and need one of this node.
 * TLC_ERR_PARAM: step is 0, or above 2^62. TLC_ERR_NONFINITE: a value of the model. TLC_ERR_ORDER: a step is under
 * way, and `step` is not later. */
TLC_API tlc_status tlc_gossip_join(tlc_gossip *g, uint64_t step, const float *const *model);

TLC_API uint64_t tlc_gossip_step(const tlc_gossip *g);        /* the step under way; 0 for NULL */
TLC_API size_t tlc_gossip_message_bound(const tlc_gossip *g); /* as tlc_worker_message_bound, of pushes and hellos */

/* As tlc_worker_set_codec. TLC_ERR_PARAM also for a codec that has a bias or error feedback. */
TLC_API tlc_status tlc_gossip_set_codec(tlc_gossip *g, size_t tensor, const char *codec);

/* `taken` of the outcome: the node, and its neighbours whose frames were taken. stats: `failed` counts the steps in
 * which this node stayed where it was, `dropped` the values that it did not take then; hellos are not counted. */
TLC_API tlc_status tlc_gossip_outcome(const tlc_gossip *g, tlc_outcome *outcome);
TLC_API tlc_status tlc_gossip_stats(const tlc_gossip *g, tlc_exchange_stats *stats);

/* The state has step, codecs, model and replicas. tlc_gossip_state_load takes one state, of the same node: it goes on
 * with the same bits. Replicas of neighbours that are not in the state, or were lost, are lost. Or it takes the states
 * of all nodes of a run, in one step, with any number of nodes here: the model, and all replicas, become the mean of
 * their models, which is the result of that run. tlc_gossip_state_salvage: of those that are there. Tensors that are in
 * no state keep their model, and their replicas become equal to it. TLC_ERR_CORRUPT: also a value that is not finite.
 * Other failures as tlc_worker_state_load. */
TLC_API size_t tlc_gossip_state_size(const tlc_gossip *g);
TLC_API tlc_status tlc_gossip_state_save(const tlc_gossip *g, void *dst, size_t cap, size_t *written);
TLC_API tlc_status tlc_gossip_state_load(tlc_gossip *g, const tlc_message *states, size_t count);
TLC_API tlc_status tlc_gossip_state_salvage(tlc_gossip *g, const tlc_message *states, size_t count);

/* ---- graphs ------------------------------------------------------------------------------------------------------ */

/* The form of a graph. */
typedef enum tlc_graph_kind {
    TLC_GRAPH_RING = 0,     /* two neighbours each, the one before and the one after */
    TLC_GRAPH_TORUS = 1,    /* `rows` rows, node after node, with 4 neighbours each, fewer where they coincide */
    TLC_GRAPH_COMPLETE = 2, /* all are neighbours of all */
    TLC_GRAPH_RANDOM = 3    /* a ring, and each other pair with probability p, independently; drawn from the seed */
} tlc_graph_kind;

/* struct_size is set by the caller. Fields that a kind does not use are not read. */
typedef struct tlc_graph {
    size_t struct_size;
    tlc_graph_kind kind; /* its form */
    uint32_t nodes;      /* at least 1, at most 2^20 */
    uint32_t rows;       /* of the torus, a divisor of nodes. 0: the largest one that is at most sqrt(nodes) */
    double p;            /* of a random graph, 0 to 1 */
    uint64_t seed;       /* of a random graph */
} tlc_graph;
TLC_API tlc_status tlc_graph_init(tlc_graph *graph, size_t struct_size);

/* The neighbours of a node in rising order, at most cap, and *degree, how many they are. weights: degree + 1 Metropolis
 * weights, W_ij = 1 / (1 + max(degree_i, degree_j)), the node's own last. So W is symmetric and doubly stochastic.
 * TLC_ERR_PARAM: a bad field, or no such node. TLC_ERR_CAPACITY: *degree is more than cap; only *degree is written, so
 * that a call with cap 0 tells it. The time is that of as many nodes as there are neighbours; of a random graph, times
 * the number of nodes. */
TLC_API tlc_status tlc_graph_neighbours(const tlc_graph *graph, uint32_t node, uint32_t *neighbours, double *weights,
                                        size_t cap, size_t *degree);

#ifdef __cplusplus
}
#endif
#endif
