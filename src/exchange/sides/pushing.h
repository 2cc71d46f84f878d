/* SPDX-License-Identifier: MIT
 *
 * The pushes of a worker, or of a rank of an all-reduce.
 */
#ifndef TLC_PUSHING_H
#define TLC_PUSHING_H

#include "sender.h"

typedef struct tlc_pushing {
    tlc_sender sender;
    size_t *open; /* the groups whose frames a caller may make: those of tensors that are not small */
    size_t open_count;
    tlc_finding finding; /* why the gradient was dropped */
    uint64_t step;       /* of the last push */
    int under_way;       /* it was made, and its step has not ended */
} tlc_pushing;

/* messages: how many owners get one. slots: how many steps are kept. On failure, tlc_sender_free() is still needed. */
tlc_status tlc_pushing_init(tlc_pushing *p, tlc_setup *x, uint32_t messages, uint32_t slots);

/* Part i of those whose frames a caller may make. */
tlc_status tlc_pushing_part(const tlc_pushing *p, size_t i, tlc_part *part);

/* Keeps the frames of these parts for the next push; len 0: the library makes it. TLC_ERR_PARAM: one is not a frame of
 * its part; none is kept. */
tlc_status tlc_pushing_give(tlc_pushing *p, const tlc_message *frames);

/* Are the arguments of a push valid? If not, it is refused. Tensors whose frames were given need no gradient. */
tlc_status tlc_pushing_check(const tlc_pushing *p, const void *const *grads, double weight, const tlc_message *to);

/* Makes the messages of `step`. grads NULL: they say that nobody pushes. listen: so they do, and the gradient waits in
 * the residuals; *dropped grows by the values that cannot. */
void tlc_pushing_make(tlc_pushing *p, uint64_t step, const void *const *grads, double weight, int listen,
                      uint64_t *dropped);

/* The push to owner i. */
static inline tlc_message tlc_pushing_message(const tlc_pushing *p, uint32_t i)
{
    return tlc_sender_slot(&p->sender, p->step, i)->message;
}
#endif
