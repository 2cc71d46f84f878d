/* SPDX-License-Identifier: MIT
 *
 * Which values of a unit a sparse quantizer sends: the largest ones, by a key of the bits of each value. search.c finds
 * the least key; selection.c applies it.
 */
#ifndef TLC_SELECTION_H
#define TLC_SELECTION_H

#include "input.h"

/* The members: values with key ((bits of x) ^ flip) & keep >= least, as signed integers. Of those whose key is equal to
 * least, only the ones up to index last. */
typedef struct tlc_selection {
    uint32_t flip, keep;
    int32_t least; /* at least 1, so that zeros are not members */
    uint64_t last; /* index in the unit */
    int32_t split; /* if members have one of two magnitudes: those with key >= split have the larger one */
} tlc_selection;

/* Keys that select by magnitude, the largest positive values, and the negative ones of the largest magnitudes. */
#define TLC_BY_MAGNITUDE {.keep = TLC_F32_ABS}
#define TLC_POSITIVE {.keep = UINT32_MAX}
#define TLC_NEGATIVE {.flip = ~TLC_F32_ABS, .keep = UINT32_MAX}

static inline uint32_t tlc_selection_key(const tlc_selection *s, float x)
{
    return (tlc_float_bits(x) ^ s->flip) & s->keep;
}

/* Sets the mask of the members among count values from index `at` of the unit on. Returns how many there are. */
uint64_t tlc_selection_mask(const tlc_selection *s, const tlc_kernels *k, const float *x, size_t at, size_t count,
                            uint64_t *mask);

/* Keeps only the first k members of a mask of count values. */
void tlc_mask_keep_first(uint64_t *mask, size_t count, size_t k);

/* ---- search ------------------------------------------------------------------------------------------------------ */

/* The random word of value i of a tensor is a function of seed, step and from + i. */
typedef struct tlc_random {
    uint64_t seed, step;
    uint64_t from; /* 0 for the values that a context sends */
} tlc_random;

/* The values that are searched: those of a unit; or samples, the j-th of which is drawn at random from the j-th of
 * `samples` equal parts of the unit. */
typedef struct tlc_candidates {
    const tlc_input *input;
    size_t first;             /* of the unit, in the tensor */
    uint64_t n;               /* of the unit */
    uint64_t samples;         /* 0: all values */
    const tlc_random *random; /* for samples */
} tlc_candidates;

/* Completes at most TLC_SEARCHES selections, of which flip and keep are given, so that the k largest keys above 0 are
 * those of the members; all keys above 0 if there are no more. 1 <= k <= the number of candidates. Of equal keys the
 * first ones are taken; with samples all values of the unit that have the key. */
enum { TLC_SEARCHES = 2 };
void tlc_search(const tlc_candidates *c, uint64_t k, tlc_selection *selections, size_t count);
#endif
