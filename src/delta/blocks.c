/* SPDX-License-Identifier: MIT */
#include "blocks.h"
#include "dense.h"
#include "sparse.h"
#include "weights.h"

/* Percent of the weights that differ: from the first on a dense payload may be shorter; up to the second a sparse one
 * is tried. Above that a sparse one could be up to 3% shorter, but takes several times as long. */
enum { DENSE_FROM = 13, SPARSE_TO = 40 };

tlc_delta_kind tlc_delta_block_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t *len)
{
    const unsigned width = tlc_delta_width(w->dtype);
    const size_t raw = w->n * (width / 8);
    tlc_delta_masks masks;

    *len = 0;
    if (w->base) {
        masks.k = width == 32 ? w->k->delta32(w->base, next, w->n, masks.changed, masks.negative, masks.large)
                              : w->k->delta16(w->base, next, w->n, masks.changed, masks.negative, masks.large);
        if (!masks.k)
            return TLC_DELTA_SAME;
        if (masks.k * 100 <= (uint64_t)w->n * SPARSE_TO)
            *len = tlc_delta_sparse_write(w, &masks, next, dst, raw - 1);
    }
    if (!w->base || masks.k * 100 > (uint64_t)w->n * DENSE_FROM) {
        size_t dense = tlc_delta_dense_write(w, next, dst, *len ? *len - 1 : raw - 1);
        if (dense) {
            *len = dense;
            return TLC_DELTA_DENSE;
        }
    }
    if (*len)
        return TLC_DELTA_SPARSE;
    *len = raw;
    tlc_weights_convert(dst, next, w->n, width);
    return TLC_DELTA_RAW;
}

static int check_one(const tlc_delta_block *b)
{
    switch (b->kind) {
    case TLC_DELTA_SAME: return b->weights.base && !b->len;
    case TLC_DELTA_SPARSE: return b->weights.base != NULL; /* they are checked together */
    case TLC_DELTA_DENSE: return tlc_delta_dense_check(&b->weights, b->src, b->len);
    case TLC_DELTA_RAW: return b->len == b->weights.n * (tlc_delta_width(b->weights.dtype) / 8);
    }
    return 0;
}

int tlc_delta_blocks_check(const tlc_delta_block *blocks, size_t count, uint64_t *changed)
{
    const tlc_delta_block *sparse[TLC_DELTA_TOGETHER];
    size_t sparse_count = 0;

    for (size_t i = 0; i < count; i++) {
        if (!check_one(&blocks[i]))
            return 0;
        if (blocks[i].kind == TLC_DELTA_SPARSE)
            sparse[sparse_count++] = &blocks[i];
    }
    return tlc_delta_sparse_check(sparse, sparse_count, changed);
}

void tlc_delta_block_apply(const tlc_delta_block *b, uint8_t *weights)
{
    const tlc_delta_weights *w = &b->weights;

    switch (b->kind) {
    case TLC_DELTA_SAME: break;
    case TLC_DELTA_SPARSE: tlc_delta_sparse_apply(w, b->src, b->len, weights); break;
    case TLC_DELTA_DENSE: tlc_delta_dense_apply(w, b->src, b->len, weights); break;
    case TLC_DELTA_RAW: tlc_weights_convert(weights, b->src, w->n, tlc_delta_width(w->dtype)); break;
    }
}
