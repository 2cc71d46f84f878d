/* SPDX-License-Identifier: MIT */
#include "blocks.h"
#include "dense.h"
#include "sparse.h"
#include "weights.h"

/* A dense payload may be shorter if more than one weight in DENSE_FROM differs. It is if at most one in SPARSE_TO does
 * not. */
enum { DENSE_FROM = 8, SPARSE_TO = 4 };

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
        if (masks.k <= w->n - w->n / SPARSE_TO)
            *len = tlc_delta_sparse_write(w, &masks, next, dst, raw - 1);
    }
    if (!w->base || masks.k > w->n / DENSE_FROM) {
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

int tlc_delta_block_check(const tlc_delta_weights *w, tlc_delta_kind kind, const uint8_t *src, size_t len,
                          uint64_t *changed)
{
    *changed = 0;
    switch (kind) {
    case TLC_DELTA_SAME: return w->base && !len;
    case TLC_DELTA_SPARSE: return w->base && tlc_delta_sparse_check(w, src, len, changed);
    case TLC_DELTA_DENSE: return tlc_delta_dense_check(w, src, len);
    case TLC_DELTA_RAW: return len == w->n * (tlc_delta_width(w->dtype) / 8);
    }
    return 0;
}

void tlc_delta_block_apply(const tlc_delta_weights *w, tlc_delta_kind kind, const uint8_t *src, size_t len,
                           uint8_t *weights)
{
    switch (kind) {
    case TLC_DELTA_SAME: break;
    case TLC_DELTA_SPARSE: tlc_delta_sparse_apply(w, src, len, weights); break;
    case TLC_DELTA_DENSE: tlc_delta_dense_apply(w, src, len, weights); break;
    case TLC_DELTA_RAW: tlc_weights_convert(weights, src, w->n, tlc_delta_width(w->dtype)); break;
    }
}
