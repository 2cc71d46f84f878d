/* SPDX-License-Identifier: MIT
 *
 * Layouts: who exchanges what with whom. layout_kinds lists their kinds. A step is a list of phases. In a phase some
 * machines make a call, one after the other, and then messages travel. Machines are the ranks, and then the servers, if
 * there are any.
 */
#ifndef SIM_LAYOUT_H
#define SIM_LAYOUT_H

#include "../lib/shapes.h"
#include "link_model.h"
#include <stdint.h>
#include <threelc/gossip.h>

enum { LAYOUT_KINDS = 6 };

typedef struct layout_kind layout_kind;

typedef struct layout_options {
    const layout_kind *kind;
    const shape_list *model;
    const char *codec;
    size_t ranks, servers;
    size_t owners; /* the most ranks that own parts; 0: all */
    size_t site;   /* ranks of a site */
    tlc_graph_kind graph;
    tlc_isa isa;
    uint64_t seed;
    bool on_device; /* gradients of rank 0 are: its calls are those of the host of a device */
    bool replay;    /* only rank 0 and the servers are there during a step; the others are there for a call each */
} layout_options;

typedef struct layout_phase {
    const char *call;
    bool by_servers; /* else by the ranks */
    bool inside;     /* messages stay in a site */
    bool pulls;      /* ranks get the results; with replay only rank 0 does */
} layout_phase;

/* Of a machine in a phase, without what it sends to itself. */
typedef struct traffic {
    uint64_t out, in; /* bytes */
    size_t messages;  /* that it sends */
} traffic;

/* What the calls of a step work on: a pointer for each tensor. */
typedef struct layout_values {
    const void *const *grads;
    void *const *out;
} layout_values;

struct layout_kind {
    const char *name;
    unsigned algorithm;           /* of fleet.h, if the machines are one fleet */
    bool has_servers, has_owners; /* a number after the name says how many */
    bool has_site;                /* the number of its ranks must come after the name */
    bool has_graph;               /* its name comes after the name */
    const layout_phase *phases;
    size_t phase_count;
    size_t most_whole; /* ranks; with more a step without replay takes too long */

    bool (*takes)(const char *codec); /* NULL: all codecs */
    /* Bytes that all machines need without replay; SIZE_MAX: they cannot be made. */
    size_t (*memory)(const layout_options *o);
    /* The same with replay, where it is not small; NULL: it is. SIZE_MAX: it cannot be replayed. */
    size_t (*replay_memory)(const layout_options *o);
    /* NULL: it failed, and why says so. The options must outlive the layout. */
    void *(*open)(const layout_options *o, char *why);
    void (*close)(void *layout); /* NULL is allowed */
    /* All tensors of a rank at their offsets. With replay ranks share it, so it is written before each push. NULL, also
     * the function: there is no residual. */
    float *(*residual)(void *layout, size_t rank);
    bool (*begin)(void *layout, char *why); /* a step; NULL: nothing is to be done */
    bool (*call)(void *layout, size_t phase, size_t machine, const layout_values *values, char *why);
    traffic (*sent)(const void *layout, size_t phase, size_t machine);
    /* What the device of rank 0 makes for its call in a phase, and what it moved. NULL: there may be no device. */
    bool (*quantize)(void *layout, size_t phase, const layout_values *values, char *why);
    model_device_load (*moved)(const void *layout, size_t phase);
    /* With replay, after the second rank has pushed: about how many bytes of messages will be kept. NULL: no replay. */
    size_t (*kept)(const void *layout);
};

extern const layout_kind *const layout_kinds[LAYOUT_KINDS];
extern const layout_kind layout_all_reduce, layout_owners, layout_gather, layout_server, layout_gossip, layout_groups;

/* Names of graphs, as on the command line. NULL: there is no such graph. */
const char *layout_graph_name(tlc_graph_kind graph);

/* Adds a message to what its sender sends, if `out`, or else to what its receiver gets. Empty ones do not travel. */
static inline void traffic_add(traffic *t, tlc_message message, bool out)
{
    if (out && message.len)
        t->messages++;
    *(out ? &t->out : &t->in) += message.len;
}
#endif
