/* SPDX-License-Identifier: MIT
 *
 * The state of a worker, a server or a rank of an all-reduce as bytes, which src/docs/format.md draws.
 *
 * Residuals are found by name and place, so another number of ranks can go on with them.
 */
#ifndef TLC_OBJECT_STATE_H
#define TLC_OBJECT_STATE_H

#include "object.h"
#include "../wire/reader.h"

size_t tlc_object_state_size(const tlc_object *o);
tlc_status tlc_object_state_save(const tlc_object *o, void *dst, size_t cap, size_t *written);

#define TLC_STATE_VERSION 2 /* that is written; 1 has no history */
#define TLC_STATE_FIXED 16  /* bytes before the numbers of the head */

enum { TLC_ENTRY_PULL = 1, TLC_ENTRY_RESIDUAL = 2 };

/* A part of a tensor in a state. */
typedef struct tlc_state_entry {
    int pull;            /* of answers */
    const uint8_t *name; /* name_len bytes */
    size_t name_len;
    uint64_t n, first, count;
    const char *codec; /* codec_len bytes */
    size_t codec_len;
    const uint8_t *residual; /* count f32, or NULL */
} tlc_state_entry;

/* A state that is read. */
typedef struct tlc_state {
    tlc_reader in;                                           /* without the checksum; at the next entry */
    uint64_t step, workers, servers, rank, entries, history; /* history 0: not known */
    unsigned kind, role, sum;
} tlc_state;

/* Reads the head of a state, but not its checksum. */
tlc_status tlc_state_head(tlc_state *s, tlc_message message);

/* Reads the next entry. Returns 0 if it is not as it should be. */
int tlc_state_next(tlc_state *s, tlc_state_entry *e);

/* ---- residuals (state_residuals.c) ------------------------------------------------------------------------------- */

/* How many values of a part an entry has. */
uint64_t tlc_entry_overlap(const tlc_ownership_part *part, const tlc_state_entry *e);

/* Those of the parts that an entry has values of. */
tlc_parts tlc_entry_parts(const tlc_sender *s, tlc_parts parts, const tlc_state_entry *e);

/* Copies or adds what an entry has of part p. */
void tlc_entry_take(const tlc_sender *s, size_t p, const tlc_state_entry *e, int add);

/* All residuals: to 0, or times a factor where one worker's part in a mean has changed. */
void tlc_residuals_set(const tlc_sender *s, float factor);

/* ---- the whole (object_load.c) ----------------------------------------------------------------------------------- */

/* Sets residuals, codecs, o->step and o->history from states, or on failure nothing. lost: states may be missing. The
 * report tells what was not found. */
tlc_status tlc_object_state_load(tlc_object *o, const tlc_message *states, size_t count, int lost);
#endif
