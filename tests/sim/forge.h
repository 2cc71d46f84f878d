/* SPDX-License-Identifier: MIT
 *
 * What is in a message; and messages with a right checksum that are wrong inside, as a broken or hostile peer may send
 * them.
 */
#ifndef TLC_SIM_FORGE_H
#define TLC_SIM_FORGE_H

#include "network.h"
#include <threelc/bundle.h>

/* Offsets of messages (src/docs/format.md), and the bytes after the bundle. */
enum { MAGIC = 0, VERSION = 1, KIND = 2, FLAGS = 3, FINGERPRINT = 4, HEAD = 12, CHECKSUM = 4 };

/* Finds the bundle of a message. Returns its offset, or 0 if there is none. */
size_t find_bundle(const blob *b, tlc_bundle_reader *frames);

/* A message with another magic, version, kind, flag or fingerprint. *causes: CAUSE() that must be told. */
blob *forge_head(run *r, tlc_message message, uint64_t draw, unsigned *causes);

/* A message with a frame of another version, or of no codec. NULL: it has no frames. */
blob *forge_frame(run *r, tlc_message message, uint64_t draw);

/* The message of another sender, both below 128. */
blob *forge_sender(run *r, tlc_message message, uint32_t sender);

/* An answer that says of worker 0 that it was taken if it was not, or the other way round. NULL: it says of nobody. */
blob *forge_taken(run *r, tlc_message message, uint32_t workers);

/* A message whose last value is NaN. NULL: its last frame is not raw. */
blob *forge_last_value(run *r, tlc_message message);

/* Another last byte before the checksum. */
blob *forge_last_byte(run *r, tlc_message message);

#endif
