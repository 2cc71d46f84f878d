/* SPDX-License-Identifier: MIT
 *
 * Makes frames: the pushes of a worker, or the answers of an owner. It has a context and a residual for each group of
 * parts, and the buffers of the messages. What others did not take goes back into the residuals.
 */
#ifndef TLC_SENDER_H
#define TLC_SENDER_H

#include "../wire/message.h"
#include "norms.h"

/* A message and its frames. */
typedef struct tlc_outgoing {
    uint8_t *bundle_at; /* where the bundle is written */
    size_t bundle_cap;
    tlc_message message; /* len 0: there is none */
    tlc_message bundle;  /* len 0: no frames */
    uint64_t step;
} tlc_outgoing;

/* Makes the frame of a group in another way than compression does. Returns its bytes; 0: the group is compressed. */
typedef size_t tlc_frame_maker(void *arg, size_t group, void *dst, size_t cap);

typedef struct tlc_sender {
    const tlc_setup *x;
    tlc_direction direction;
    tlc_dtype dtype;                /* of the values */
    uint32_t first_owner, messages; /* a message for the groups of each of these owners */
    uint32_t slots;                 /* how many steps are kept */
    size_t first_part, part_count;
    size_t first_group, group_count;
    tlc_frame_maker *make; /* or NULL */
    void *make_arg;
    tlc_message *given;  /* by group: a frame that the caller made; len 0: none. Their bytes are there during the call
                            only */
    const void **source; /* by part: the values to send; NULL: they are elsewhere */
    size_t *group_of;    /* by part */
    tlc_ctx **ctx;       /* by group; NULL: its tensors are those of another worker */
    float **residual;    /* by part; NULL: none */
    float **together;    /* by group: the residual of all its parts, one after the other. Where a part's own is the
                            caller's, it is copied here and back */
    uint8_t *gathered;   /* the values of a shared group */
    tlc_outgoing *out;   /* slots x messages */
    tlc_norms norms;     /* of all groups that were compressed, when frames were made last */
} tlc_sender;

/* Makes a sender for the parts of owners first_owner .. first_owner + messages - 1. The dtype is that of the
 * configuration for pushes, f32 for answers. On failure, tlc_sender_free() is still needed. */
tlc_status tlc_sender_init(tlc_sender *s, tlc_setup *x, tlc_direction direction, uint32_t first_owner,
                           uint32_t messages, uint32_t slots);
void tlc_sender_free(tlc_sender *s);

/* ---- what is where. Parts, groups and messages of a sender count from 0 ------------------------------------------ */

static inline const tlc_ownership_part *tlc_sender_part(const tlc_sender *s, size_t p)
{
    return &s->x->ownership.parts[s->first_part + p];
}

static inline const tlc_ownership_group *tlc_sender_group(const tlc_sender *s, size_t g)
{
    return &s->x->ownership.grouping[s->direction].groups[s->first_group + g];
}

/* The first group of message i. */
static inline size_t tlc_sender_begin(const tlc_sender *s, uint32_t i)
{
    return s->x->ownership.grouping[s->direction].begin[s->first_owner + i] - s->first_group;
}

/* The index of part i of a group. */
static inline size_t tlc_group_index(const tlc_sender *s, const tlc_ownership_group *group, size_t i)
{
    return s->x->ownership.grouping[s->direction].order[group->begin + i] - s->first_part;
}

static inline const tlc_ownership_part *tlc_group_part(const tlc_sender *s, const tlc_ownership_group *group, size_t i)
{
    return tlc_sender_part(s, tlc_group_index(s, group, i));
}

/* Did the caller make the frame of this group? */
static inline int tlc_sender_given(const tlc_sender *s, size_t g)
{
    return s->given[g].len != 0;
}

/* Takes frame i of those that the caller made, for group g; len 0: the group is compressed. TLC_ERR_PARAM: it is not
 * a frame of the group. Then none is kept. */
tlc_status tlc_sender_give(tlc_sender *s, size_t g, size_t i, tlc_message frame);

/* Forgets them. */
void tlc_sender_forget_given(tlc_sender *s);

/* The parts of a tensor that a sender has, by their first value. */
typedef struct tlc_parts {
    const size_t *list;
    size_t count, first;
} tlc_parts;

tlc_parts tlc_sender_parts_of(const tlc_sender *s, size_t tensor);

/* The index of part i of these. */
static inline size_t tlc_parts_at(const tlc_parts *parts, size_t i)
{
    return parts->list[i] - parts->first;
}

/* The context of a part, or NULL: this object does not send it. *shared: does it share a frame? */
tlc_ctx *tlc_sender_context(const tlc_sender *s, size_t p, int *shared);

static inline tlc_outgoing *tlc_sender_slot(const tlc_sender *s, uint64_t step, uint32_t i)
{
    return &s->out[(size_t)(step % s->slots) * s->messages + i];
}

/* Message i of a step, or NULL if it is not kept. */
const tlc_outgoing *tlc_sender_find(const tlc_sender *s, uint64_t step, uint32_t i);

/* The same for a caller who is in step `now`. TLC_ERR_ORDER: the step is to come. TLC_ERR_PARAM: it is not kept, or
 * message is NULL. */
tlc_status tlc_sender_again(const tlc_sender *s, uint64_t now, uint64_t step, tlc_message *message);

/* No step is kept any more. */
void tlc_sender_forget(tlc_sender *s);

/* ---- out. These read s->source: values in the dtype of the sender, for each part of a group with a context ------- */

/* The first part whose values are not all finite, or TLC_ALL. */
size_t tlc_sender_nonfinite(const tlc_sender *s);

/* The values of a group, in one piece. */
const void *tlc_group_values(const tlc_sender *s, const tlc_ownership_group *group);

/* Compresses all groups for `step`. TLC_ERR_NONFINITE: of part *bad. Residuals are what they were then, to rounding. */
tlc_status tlc_sender_encode(tlc_sender *s, uint64_t step, size_t *bad);

/* Adds the values to the residuals and sends nothing. Returns how many values could not be kept. *bad: a part whose sum
 * is not finite, if there is one; the values of its group are dropped. */
uint64_t tlc_sender_accumulate(tlc_sender *s, size_t *bad);

/* Takes back what was encoded for `step`: residual = residual + frame - values. Frames that were given are dropped. */
void tlc_sender_undo(tlc_sender *s, uint64_t step);

/* Makes message i around the frames that were encoded, or without frames if the head says so. */
tlc_message tlc_sender_seal(tlc_sender *s, uint32_t i, tlc_head *head);

/* ---- residuals (residuals.c) ------------------------------------------------------------------------------------- */

/* Residuals of the caller, into that of a group, and back. */
void tlc_residual_fetch(const tlc_sender *s, size_t g);
void tlc_residual_store(const tlc_sender *s, size_t g);

/* Returns the frames of message i of `step`, which is kept, to the residuals. Returns how many values could not go
 * back. */
uint64_t tlc_sender_return(tlc_sender *s, uint64_t step, uint32_t i);

/* momentum[tensor][j] = 0 where message i of `step` has a value that is not 0. */
void tlc_sender_mask(const tlc_sender *s, uint64_t step, uint32_t i, float *const *momentum);

/* All residuals *= factor. TLC_ERR_NONFINITE: a product is not finite. check_only: changes nothing. */
tlc_status tlc_sender_scale(tlc_sender *s, float factor, int check_only);

/* Sets the codec of a tensor (TLC_ALL: of all with the common codec), in all its parts or in none. check_only: changes
 * nothing. */
tlc_status tlc_sender_set_codec(tlc_sender *s, size_t tensor, const char *codec, int check_only);

/* The bytes of the values of message i as they come: what `raw` frames would have after their headers. */
uint64_t tlc_sender_float_bytes(const tlc_sender *s, uint32_t i);
#endif
