/* SPDX-License-Identifier: MIT
 *
 * Blocks in which few weights differ; src/docs/format.md draws a payload.
 */
#ifndef TLC_DELTA_SPARSE_H
#define TLC_DELTA_SPARSE_H

#include "payload.h"

enum { TLC_DELTA_ORDER_MAX = 31 /* of the codes of magnitudes */ };

/* The units of a block that differ. Bit i % 64 of word i / 64 is that of unit i; bits from n on are 0. among: the same
 * of the j-th unit that differs: whether |d| > 1. */
typedef struct tlc_delta_masks {
    uint64_t changed[TLC_DELTA_BLOCK / 64], negative[TLC_DELTA_BLOCK / 64], large[TLC_DELTA_BLOCK / 64];
    uint64_t among[TLC_DELTA_BLOCK / 64];
    uint64_t k, large_k; /* how many differ; how many have |d| > 1 */
    int has_among;       /* 0: among and large_k are not set yet */
} tlc_delta_masks;

/* The same of a block in which few units differ, in less memory. Of the j-th one that differs: twice the units between
 * the one before it and this, plus 1 if d is negative. Of the j-th large one, which has |d| > 1: those that differ
 * between the large one before it and this; and |d|. */
enum { TLC_DELTA_LISTED = 2560 };
typedef struct tlc_delta_list {
    uint32_t gap[TLC_DELTA_LISTED], large_gap[TLC_DELTA_LISTED], magnitude[TLC_DELTA_LISTED];
    size_t k, large_k;
} tlc_delta_list;

/* Returns the bytes of the payload, or 0 if it would be longer than cap. All of dst may be overwritten. */
size_t tlc_delta_sparse_write(const tlc_delta_weights *w, tlc_delta_masks *masks, const uint8_t *next, uint8_t *dst,
                              size_t cap);
size_t tlc_delta_sparse_write_list(const tlc_delta_weights *w, const tlc_delta_list *list, uint8_t *dst, size_t cap);
/* Checks at most TLC_DELTA_TOGETHER blocks of one frame. *changed: the weights that differ in them. */
int tlc_delta_sparse_check(const tlc_delta_block *const *blocks, size_t count, uint64_t *changed);
void tlc_delta_sparse_apply(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_window window,
                            uint8_t *weights);

/* The units that differ, some at a time. The payload has passed the check. Returns 0 if `take` has stopped it. */
int tlc_delta_sparse_changes(const tlc_delta_weights *w, const uint8_t *src, size_t len, tlc_delta_take_changes take,
                             void *arg);
#endif
