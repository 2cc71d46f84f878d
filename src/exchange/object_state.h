/* SPDX-License-Identifier: MIT
 *
 * The state of a worker, a server or a rank of an all-reduce as bytes, little-endian:
 *
 *   0..3    "TLCX"
 *   4       version, 1
 *   5       bits 0-3 kind (message.h), bits 4-7 role (finding.h: 0 rank, 1 worker, 2 server)
 *   6       1 if results are sums, else 0
 *   7       0
 *   8..15   step
 *   then    LEB128: workers, servers, rank, number of entries
 *   then    the entries
 *   then    server: LEB128 for each worker: the last step in which its push was taken
 *   then    the checksum, u32: the low 32 bits of XXH3_64bits of all bytes before it
 *
 * An entry is a part of a tensor in one direction:
 *
 *           a byte: bit 0 direction (0 pushes, 1 answers), bit 1 there is a residual
 *           LEB128: length of the tensor's name; the name
 *           LEB128: n of the tensor, first value of the part, its number of values
 *           LEB128: length of the codec string; the codec string
 *           the residual, f32 for each value of the part, if there is one
 *
 * Residuals are found by name and place, so another number of ranks can go on with them.
 */
#ifndef TLC_OBJECT_STATE_H
#define TLC_OBJECT_STATE_H

#include "object.h"

size_t tlc_object_state_size(const tlc_object *o);
tlc_status tlc_object_state_save(const tlc_object *o, void *dst, size_t cap, size_t *written);

/* Sets residuals, codecs and o->step from states, or on failure nothing. *report tells the status and what was not
 * found. */
tlc_status tlc_object_state_load(tlc_object *o, const tlc_message *states, size_t count, tlc_report *report);
#endif
