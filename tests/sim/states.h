/* SPDX-License-Identifier: MIT
 *
 * Checkpoints: saved states, and what they must restore, in the same group or in another one.
 */
#ifndef TLC_SIM_STATES_H
#define TLC_SIM_STATES_H

#include "object.h"

/* A saved state, and what the object was when it was saved. */
typedef struct checkpoint {
    tlc_message state;
    object_role role;
    uint32_t rank, workers, servers;
    uint64_t step;
    const codec_case *codec[2][MOST_TENSORS];
    float *residual; /* of pushes, all values */
    float *owned;    /* of answers, for the values of its parts */
    uint8_t *has;    /* 1: the value is in one of its parts */
} checkpoint;

checkpoint checkpoint_make(object *o);
void checkpoint_give(run *r, checkpoint *c);

/* A new object with the state of this one, which is destroyed. Checks that it is the same. */
void object_reload(object **o);

/* Loads its own state into a new object: it goes on with the same bits. */
void load_same(object *o, const checkpoint *c);

/* Loads states of another group into a new object: means stay what they would have been. */
void load_all(object *o, const checkpoint *const *c, size_t count);

/* States that must be refused. */
void refuse_states(object *o, const checkpoint *c, const checkpoint *other);

#endif
