/* SPDX-License-Identifier: MIT
 *
 * Members that the caller has chosen: the means that stages/topk.c and stages/sparse_binary.c find for those that they
 * choose, with the same bits. They are apart from these, as few programs need them.
 */
#ifndef TLC_CHOSEN_H
#define TLC_CHOSEN_H

#include "../stages/stage.h"

/* Where they are in the tensor, by rising position, and x of each. */
typedef struct tlc_chosen {
    const uint64_t *positions;
    const float *values;
    size_t count;
} tlc_chosen;

/* Sets scalars and selection of a unit with these members; those whose key is not above 0 are not sent. bits: of their
 * values. With 1 or 2 the scalars are means of magnitudes. With 0 the members of both sides come, the positive and the
 * negative one, and that with the larger mean is sent. */
void tlc_settle(tlc_unit *u, const tlc_chosen *members, unsigned bits);
#endif
