/* SPDX-License-Identifier: MIT
 *
 * How long a step takes on a network: a pure function of what machines send and compute.
 *
 * A step is a list of phases. In a phase ranks or servers make calls (codec), then messages travel (wire). Links are
 * full duplex. A phase takes the time of its busiest machine:
 *
 *   wire of a phase = latency + max over machines of max(bytes out / up, bytes in / down); 0 if nothing is sent.
 *                     If it is inside a site, with the latency and the links of ranks in their site.
 *   step            = compute + sum over phases of (codec of the busiest machine + wire)
 *   overlapped      = max(compute, codec of ranks, codec of servers, bytes out / up, bytes in / down, of all phases)
 *                     + latencies
 *
 * If gradients are on a device, a phase also takes the bytes through its memory / its rate, and those that cross, to
 * the host or back, / the rate of the bus. Then "overlapped" also has the bytes to the host, those back, and compute is
 * together with memory. Floats cross to the host and back.
 *
 * Links inside a site are others than those out of it, so all of them are busy at once in "overlapped".
 *
 * "step" does one thing after the other. "overlapped" is the limit of a schedule that cuts the model into pieces
 * so small that cores and links are never idle. Only latencies cannot be hidden.
 */
#ifndef SIM_LINK_MODEL_H
#define SIM_LINK_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_PHASES = 8 };

/* Of the busiest machine of a class, in a phase. */
typedef struct model_load {
    double out, in; /* bytes */
    double codec;   /* seconds */
} model_load;

/* Of the device that a rank's gradients are on, in a phase: bytes through its memory, and those that cross. */
typedef struct model_device_load {
    double memory, to_host, to_device;
} model_device_load;

typedef struct model_phase {
    bool inside; /* messages of ranks stay in their site */
    model_load rank, server;
    model_device_load device;
} model_phase;

typedef struct model_link {
    double up, down; /* bytes a second */
} model_link;

/* Bytes a second. 0: there is no device, and its loads do not count. */
typedef struct model_device {
    double memory, bus; /* bus: in each direction */
} model_device;

typedef struct model_input {
    size_t phases;
    model_phase phase[MAX_PHASES];
    model_link rank, server; /* links */
    model_link site;         /* links of ranks in their site, for phases inside */
    model_device device;
    double latency, compute; /* seconds */
    double site_latency;     /* of phases inside */
    /* of what it is compared with: */
    size_t ranks;
    size_t servers;     /* of push and pull of floats; 0: each rank serves a part */
    double float_bytes; /* of all values as floats */
} model_input;

typedef struct model_time {
    double wire; /* of the step: latencies and bytes */
    double step, overlapped;
} model_time;

typedef struct model_output {
    double codec;  /* seconds of the step: of the busiest machine of each phase */
    double device; /* of the device: its memory, and what crosses */
    model_time time;
    model_time ring, ring_halves;       /* ring all-reduce of floats, of 16-bit floats */
    model_time push_pull;               /* floats to the servers and back */
    double direct;                      /* the faster one's step, if the network reaches the device's memory */
    double speedup, overlapped_speedup; /* the fastest way of floats / the codec */
    /* The codec is the fastest way, without overlap, if all links are `above` to `below` times as fast. above: 0,
     * unless a slow link makes it lose. below: INFINITY if it always wins. above >= below: it never wins. */
    double above, below;
} model_output;

model_output model_predict(const model_input *in);

/* Whether a codec is never, always, or sometimes faster. */
static inline bool model_never_wins(const model_output *out)
{
    return out->above >= out->below;
}
#endif
