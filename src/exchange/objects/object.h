/* SPDX-License-Identifier: MIT
 *
 * What a worker, a server and a rank of an all-reduce have in common: codecs and residuals of pushes, answers, or both.
 */
#ifndef TLC_OBJECT_H
#define TLC_OBJECT_H

#include "../sides/sender.h"

typedef struct tlc_object {
    const tlc_setup *x;
    tlc_sender *push, *pull; /* NULL: the object has none */
    uint64_t step, history;
    uint64_t *taken; /* of a server, by worker: the last step in which its push was taken; else NULL */
} tlc_object;

/* Changes the codecs of a tensor, all or none. NULL: leaves it. TLC_ERR_PARAM: no codec, or no such tensor. */
tlc_status tlc_object_set_codec(const tlc_object *o, size_t tensor, const char *push, const char *pull);

/* All residuals *= factor, or none. */
tlc_status tlc_object_scale(const tlc_object *o, float factor);

/* Exports the counters `ours`, and the norms of the senders. push or pull NULL: the object does not have it. */
tlc_status tlc_stats_export(const tlc_setup *x, tlc_exchange_stats *theirs, const tlc_exchange_stats *ours,
                            const tlc_sender *push, const tlc_sender *pull);

/* Does the caller of `_state_save` have room for a state of `size` bytes? If not, the call is refused. */
tlc_status tlc_save_check(const tlc_setup *x, const void *dst, size_t cap, const size_t *written, size_t size);
#endif
