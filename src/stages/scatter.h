/* SPDX-License-Identifier: MIT
 *
 * Sparse values on their way to the sink: positions in rising order, a batch after the other.
 */
#ifndef TLC_SCATTER_H
#define TLC_SCATTER_H

#include "stage.h"

enum { TLC_BATCH = 256 }; /* positions that are handed on at a time */

typedef struct tlc_scatter {
    const tlc_unit *u;
    size_t filled; /* WRITE: values below are 0 but for those written */
    size_t window; /* WRITE to another dtype: where values[] begins */
    float values[TLC_PIECE];
} tlc_scatter;

void tlc_scatter_begin(tlc_scatter *s, const tlc_unit *u);
/* count positions of the unit and what they decode to. */
void tlc_scatter_batch(tlc_scatter *s, const size_t *index, const float *value, size_t count);
void tlc_scatter_end(tlc_scatter *s); /* all others are 0 */

/* The same for up to TLC_BATCH positions whose values lie as f32 in a payload; returns where the next ones lie. */
const uint8_t *tlc_scatter_stored(tlc_scatter *s, const size_t *index, const uint8_t *values, size_t count);

/* The same for count <= TLC_PIECE values of the unit from at on, of which those in the mask lie in a payload, from values up
 * to end; the others are 0. Comes alone: no tlc_scatter takes part. */
const uint8_t *tlc_expand_stored(const tlc_unit *u, size_t at, size_t count, const uint64_t *mask, const uint8_t *values,
                                 const uint8_t *end);

/* Can these be f32 values that a sparse stage sends, finite and not 0? */
int tlc_sent_values_valid(const uint8_t *src, size_t count);
#endif
