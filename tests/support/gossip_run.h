/* SPDX-License-Identifier: MIT
 *
 * Gossip of threelc/gossip.h: a network is all nodes in one process, with what their local steps make, and the
 * messages between them.
 */
#ifndef TLC_TEST_GOSSIP_RUN_H
#define TLC_TEST_GOSSIP_RUN_H

#include "exchange_run.h"
#include <threelc/gossip.h>
#include <threelc/bundle.h>

/* NOLINTNEXTLINE(bugprone-macro-parentheses): the argument is a name to declare */
#define FOR_EACH_GOSSIP(kind) for (tlc_gossip_kind kind = TLC_GOSSIP_DCD; kind <= TLC_GOSSIP_ECD; kind++)

/* Tensors of every sort: small ones that share a frame, one without values, one with a codec of its own, one that fills
 * cache lines. */
enum { BIAS, CONV, NONE, WIDE, OWN, GAIN, NET_TENSORS };
extern const tlc_tensor net_tensors[NET_TENSORS];

/* All codecs without bias and error feedback that codecs.def has, up to NULL; and all of them for `reserve`. */
const char *const *unbiased_codecs(void);
const char *reserve_unbiased(void);

/* ---- a network --------------------------------------------------------------------------------------------------- */

typedef struct node {
    tlc_gossip *g;
    uint32_t *neighbours;
    double *weights;
    size_t degree;
    uint8_t *moved[NET_TENSORS]; /* at any address */
    tlc_message push, hello;     /* the last ones */
    tlc_status pulled;           /* of the last pull */
} node;

typedef struct network network;
struct network {
    tlc_exchange_config cfg;
    tlc_gossip_kind kind;
    tlc_tensor tensors[NET_TENSORS];
    uint32_t nodes;
    node *node;
    float *start[NET_TENSORS];       /* the model to start with */
    size_t start_size[NET_TENSORS];  /* its bytes, whatever becomes of `tensors` */
    uint8_t *unaligned[NET_TENSORS]; /* a copy of it, at any address */
    /* What a message becomes on its way; NULL: it comes as it is. len 0: nothing comes. */
    tlc_message (*via)(network *net, uint32_t from, uint32_t to, tlc_message message);
    /* Called before and after each call; or NULL. */
    void (*around)(network *net, int before);
    void *arg; /* for these two */
};

/* A configuration of this many nodes that suits the tensors above. */
tlc_exchange_config network_config(tlc_gossip_kind kind, uint32_t nodes);
tlc_graph ring_of(uint32_t nodes);

/* The models are values from a seed. graph->nodes is that of cfg; NULL: a ring. */
void network_open(network *net, const tlc_exchange_config *cfg, tlc_gossip_kind kind, const tlc_graph *graph);
/* The same with `wide` values in tensor WIDE. around: for the calls of create, too; or NULL. */
void network_open_with(network *net, const tlc_exchange_config *cfg, tlc_gossip_kind kind, const tlc_graph *graph,
                       size_t wide, void (*around)(network *net, int before));
/* A ring of nodes with a codec, after this many steps. */
void network_ring(network *net, tlc_gossip_kind kind, uint32_t nodes, const char *codec, uint64_t steps);
void network_close(network *net);

/* Makes node i, with what net->node[i] says of its neighbours. */
tlc_status network_make(network *net, const tlc_exchange_config *cfg, uint32_t i, tlc_gossip **g);
/* The model of net->start, for a call. */
const float *const *network_start(network *net);

/* The result of a local step: mean + a small change, which `seed` decides. */
void network_move(network *net, uint64_t seed);
void move_node(network *net, uint32_t i, uint64_t seed);
float moved_value(const network *net, uint32_t i, size_t t, size_t k);

/* A call between the two calls of net->around. */
#define NETWORK_CALL(net, call)                                                                                        \
    do {                                                                                                               \
        if ((net)->around)                                                                                             \
            (net)->around(net, 1);                                                                                     \
        call;                                                                                                          \
        if ((net)->around)                                                                                             \
            (net)->around(net, 0);                                                                                     \
    } while (0)

tlc_status push_node(network *net, uint32_t i);
tlc_status pull_node(network *net, uint32_t i);
/* greet() of the hellos that the nodes made last. */
tlc_status greet_node(network *net, uint32_t i);

void network_push(network *net); /* must succeed */
void network_pull(network *net); /* node[i].pulled tells */
void network_step(network *net, uint64_t seed);
void require_all_pulled(const network *net);
void network_hello(network *net, int full); /* must succeed */
/* All greet all, and find that replicas are models. */
void network_greet(network *net);

/* A call that takes messages: pull_node or greet_node. Node 0 makes it, with this message in the place of that of
 * node 1. */
typedef tlc_status taking(network *net, uint32_t i);
tlc_status take_forged(network *net, taking *take, tlc_message message);

/* Index of `other` among the neighbours of i. */
size_t edge_of(const network *net, uint32_t i, uint32_t other);

/* ---- one node ---------------------------------------------------------------------------------------------------- */

tlc_message node_save(const network *net, uint32_t i); /* its state; blob_free() it */
tlc_status node_load(const network *net, uint32_t i, tlc_message state);
tlc_outcome node_outcome(const network *net, uint32_t i);
tlc_exchange_stats node_stats(const network *net, uint32_t i);

/* The outcome of node i: what the call returned, what the cause was, who is at fault, the sentence. */
void require_told(const network *net, uint32_t i, tlc_status status, tlc_status cause, uint32_t rank,
                  const char *sentence);

/* All that can be seen of a node, but for what `_outcome` tells; blob_free() it. */
tlc_message node_look(network *net, uint32_t i);

/* A call on node i that must fail with `want` and change nothing. It is repeated, so that the outcome is its own, and
 * not that of a question that the look has asked. */
#define NODE_REFUSED(net, i, call, want)                                                                               \
    do {                                                                                                               \
        tlc_message before_ = node_look(net, i), after_;                                                               \
        require_status_is(#call, call, want, __FILE__, __LINE__);                                                      \
        after_ = node_look(net, i);                                                                                    \
        require(blob_same(before_, after_));                                                                           \
        require_status_is(#call, call, want, __FILE__, __LINE__);                                                      \
        blob_free(&before_);                                                                                           \
        blob_free(&after_);                                                                                            \
    } while (0)

/* A message that node 0 must refuse, because of node 1. */
void require_refused(network *net, taking *take, tlc_message message, tlc_status want);
/* The same with the sentence. */
#define REFUSED(net, take, message, want, sentence)                                                                    \
    do {                                                                                                               \
        require_refused(net, take, message, want);                                                                     \
        require_told(net, 0, want, want, 1, sentence);                                                                 \
    } while (0)

/* All nodes of two networks have the same states. */
void require_same_networks(const network *a, const network *b);

/* Where the 8 bytes of a number lie in a message; it must have them. */
uint8_t *find_number(tlc_message m, uint64_t number);

/* ---- frames ------------------------------------------------------------------------------------------------------ */

/* Opens the bundle of a push or a full hello. Returns where it begins, or 0: there is none. */
size_t open_bundle(tlc_message message, tlc_bundle_reader *r);

/* The frames of a push, read with threelc/bundle.h: first those of tensors with a frame of their own, then the one that
 * small tensors share. values[t]: n values of tensor t. Returns 0 if the message has no frames. */
int read_push(const network *net, tlc_message push, float *const *values);

#endif
