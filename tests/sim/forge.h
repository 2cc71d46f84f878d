/* SPDX-License-Identifier: MIT
 *
 * Messages with a right checksum that are wrong inside, as a broken or hostile peer may send them.
 */
#ifndef TLC_SIM_FORGE_H
#define TLC_SIM_FORGE_H

#include "network.h"

/* A message with another magic, version, kind, flag or fingerprint. *causes: CAUSE() that must be told. */
blob *forge_head(run *r, tlc_message message, uint64_t draw, unsigned *causes);

/* A message with a frame of another version, or of no codec. NULL: it has no frames. */
blob *forge_frame(run *r, tlc_message message, uint64_t draw);

/* The message of another sender, both below 128. */
blob *forge_sender(run *r, tlc_message message, uint32_t sender);

/* An answer that says of worker 0 that it was taken if it was not, or the other way round. NULL: it says of nobody. */
blob *forge_taken(run *r, tlc_message message, uint32_t workers);

#endif
