/* SPDX-License-Identifier: MIT
 *
 * The arguments of a call that makes an object. Its strings and tensors are lost after the call, so an object must
 * have copied what it needs of them.
 */
#ifndef TLC_SIM_CREATION_H
#define TLC_SIM_CREATION_H

#include "object.h"

typedef struct creation {
    object_role role;
    uint32_t rank;
    tlc_exchange_config cfg;
    tlc_tensor tensors[MOST_TENSORS + 1];
    size_t count;
    tlc_gossip_kind kind; /* of nodes, with the next two */
    edges edges;
    float *model[MOST_TENSORS + 1];
    char text[2048]; /* all strings */
    size_t used;
} creation;

/* For an object whose fields are set, except `it`. */
void creation_fill(creation *c, const object *o);

/* Makes an object, or fails. */
tlc_status creation_call(run *r, creation *c, void **out);

/* residual: to be used as it is, or NULL for zeros. */
object *object_create(run *r, const group *g, object_role role, uint32_t rank, float *residual);

/* Wrong arguments, and too little memory: nothing is made, and nothing stays allocated. */
void refuse_creations(run *r, const group *g, object_role role, uint32_t rank);

#endif
