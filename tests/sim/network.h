/* SPDX-License-Identifier: MIT
 *
 * A network that delays, reorders, repeats, drops, alters and cuts messages. Time is a number of the simulation. What
 * is dropped arrives as a loss: the time-out of the one who waits. So nobody keeps clocks, and a play ends when nothing
 * is under way any more.
 *
 * Its ends are ranks of an all-reduce, or workers; then servers.
 */
#ifndef TLC_SIM_NETWORK_H
#define TLC_SIM_NETWORK_H

#include "run.h"

/* Bytes that several packets share. */
typedef struct blob {
    size_t len;
    unsigned users;
    uint8_t data[];
} blob;

blob *blob_copy(run *r, tlc_message message);
blob *blob_keep(blob *b);        /* one user more; NULL is allowed */
void blob_drop(run *r, blob *b); /* one user less; NULL is allowed */

static inline tlc_message blob_message(const blob *b)
{
    return b ? (tlc_message){b->data, b->len} : (tlc_message){NULL, 0};
}

typedef enum packet_kind {
    PACKET_PUSH,
    PACKET_ANSWER,
    PACKET_REQUEST_PUSH, /* send it again */
    PACKET_REQUEST_ANSWER,
    PACKET_WAKE /* of an end to itself */
} packet_kind;

typedef enum condition { WHOLE, DAMAGED, LOST } condition;

typedef struct packet {
    uint64_t time, number;
    packet_kind kind;
    condition condition;
    uint32_t from, to, tries; /* tries: how often it was sent before */
    uint64_t step;
    blob *bytes; /* of pushes and answers that are not lost */
} packet;

/* After this many tries a message arrives whole. */
enum { MOST_TRIES = 6 };

void network_open(run *r);
void network_close(run *r);

/* Sends a packet; time, number and condition are decided here. Takes over a user of the bytes. */
void network_send(run *r, packet p);

/* Delivers as it is, after the delay of a packet. */
void network_deliver(run *r, packet p);

/* The next packet to arrive; its bytes have a user that is now the caller's. Returns 0 if there is none. */
int network_next(run *r, packet *p);

#endif
