/* SPDX-License-Identifier: MIT
 *
 * Messages of the exchange. All numbers are little-endian.
 *
 *     0     1     2     3     4 .. 11       12 ..
 *  +-----+-----+-----+-----+-------------+--------+----------+------+---------+--------+-------+--------+----------+
 *  | 'E' |  1  |kind |flags| fingerprint | sender | receiver | step | finding | weight | taken | bundle | checksum |
 *  |     |     |phase|     |     8 B     | 1..3 B |  if any  |1..10B|  if any | if any |if any | if any |   4 B    |
 *  +-----+-----+-----+-----+-------------+--------+----------+------+---------+--------+-------+--------+----------+
 *
 *  kind, phase  bits 0-3: 1 all-reduce, 2 all-reduce with gather, 3 parameter server, 4 DCD, 5 ECD; bits 4-7: 1 push,
 *               2 answer, 3 hello of gossip
 *  flags        bit 0 failed: there are no frames, and the finding says why. bit 1 absent: a push of somebody who is
 *               not in the round. bit 2: there is a weight. bit 3: there is a finding. bits 4-7 zero
 *  fingerprint  u64: a hash of tensors and settings, which must be equal on all machines
 *  sender, step LEB128 (common/varint.h). sender: the worker, server, rank or node
 *  receiver     LEB128, pushes only, but not with gather and gossip: the server, or the rank that owns the parts
 *  finding      a byte tlc_status, a byte tlc_reason (finding.h), then LEB128: rank at fault + 1 or 0, tensor + 1 or 0,
 *               what was got or 0. In an answer that did not fail, it tells whose push was not taken, and why; in a
 *               push of ECD that did not fail, why the node stays where it was
 *  weight       f64, if it is not 1; pushes only
 *  taken        answers that did not fail: a bit for each worker, 1 if its push was taken, from the least significant
 *               bit of byte 0 on; bits that are left over are 0
 *  bundle       of frames (threelc/bundle.h), unless failed or absent: one for each group of the receiver's parts
 *               (pushes) or of the sender's (answers). A frame is empty if its tensors are those of another worker
 *               A hello has a row and perhaps a bundle there (gossip_hello.c)
 *  checksum     u32: the low 32 bits of XXH3_64bits of all bytes before it
 *
 * Frames have no checksum of their own.
 */
#ifndef TLC_MESSAGE_H
#define TLC_MESSAGE_H

#include "../plan/setup.h"
#include <threelc/bundle.h>

/* A message, without fingerprint and checksum. */
typedef struct tlc_head {
    tlc_phase phase;
    int failed, absent;
    uint32_t sender;
    uint32_t receiver; /* of a push that is not for all */
    uint64_t step;
    tlc_finding finding;  /* reason NONE: there is none */
    double weight;        /* of a push */
    const uint8_t *taken; /* of an answer that did not fail */
    tlc_message bundle;   /* unless failed or absent; of a hello: all that is behind the step */
} tlc_head;

/* The bytes that a message needs before its bundle, at most. */
size_t tlc_message_room(const tlc_setup *x);

/* Writes a message around its bundle. The bundle lies in a buffer, with tlc_message_room() bytes before it and 4 bytes
 * behind it; the message begins where its head fits in. If there is no bundle, bundle.data is a place all the same. */
tlc_message tlc_message_write(const tlc_setup *x, const tlc_head *head);

/* What a message should be. */
typedef struct tlc_expected {
    tlc_phase phase;
    uint32_t sender; /* TLC_NOBODY: any worker */
    uint64_t step;   /* 0: any */
} tlc_expected;

/* Reads and checks a message, but not the frames in its bundle, nor what is in a hello. On failure *finding says what
 * is wrong, with the sender as far as it is known; else its reason is NONE. */
tlc_status tlc_message_read(const tlc_setup *x, const tlc_expected *expected, tlc_message message, tlc_head *head,
                            tlc_bundle_reader *frames, tlc_finding *finding);

/* How many frames a push to this owner has, or its answer. */
static inline size_t tlc_message_frames(const tlc_setup *x, tlc_phase phase, uint32_t owner)
{
    const tlc_grouping *g = &x->ownership.grouping[phase == TLC_PHASE_PUSH ? TLC_PUSH : TLC_PULL];
    return g->begin[owner + 1] - g->begin[owner];
}

/* Can a push have this weight? */
int tlc_weight_valid(double weight);

/* Are these the same bytes? */
int tlc_message_equal(tlc_message a, tlc_message b);
#endif
