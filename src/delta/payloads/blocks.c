/* SPDX-License-Identifier: MIT */
#include "blocks.h"
#include "../../common/sizes.h"
#include "dense.h"
#include "weights.h"

/* Percent of the weights that differ: from the first on a dense payload may be shorter; up to the second a sparse one
 * is tried. Above that a sparse one could be up to 3% shorter, but takes several times as long. */
enum { DENSE_FROM = 13, SPARSE_TO = 40 };

int tlc_delta_is_sparse(uint64_t k, size_t n)
{
    return k * 100 <= (uint64_t)n * DENSE_FROM;
}

uint64_t tlc_delta_compare(const tlc_delta_weights *w, const uint8_t *next, tlc_delta_masks *m)
{
    m->k = 0;
    m->has_among = 0;
    switch (tlc_delta_unit(w->dtype)) {
    case TLC_UNIT_F32: m->k = w->k->delta32(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_F16: m->k = w->k->delta16(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_F8: m->k = w->k->delta8(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_F4: m->k = w->k->delta4(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_U8: m->k = w->k->delta_u8(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_U4: m->k = w->k->delta_u4(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_U32: m->k = w->k->delta_u32(w->base, next, w->n, m->changed, m->negative, m->large); break;
    case TLC_UNIT_HALF:
        for (size_t i = 0; i < w->n; i += 64)
            m->k += tlc_delta_word(w->base, next, i, tlc_smaller(w->n - i, 64), m->changed, m->negative, m->large,
                                   TLC_UNIT_HALF);
    }
    return m->k;
}

tlc_delta_kind tlc_delta_block_code(const tlc_delta_weights *w, tlc_delta_masks *masks, const uint8_t *next,
                                    uint8_t *dst, size_t cap, size_t *len)
{
    *len = 0;
    if (w->base && masks->k * 100 <= (uint64_t)w->n * SPARSE_TO)
        *len = tlc_delta_sparse_write(w, masks, next, dst, cap);
    if (!w->base || !tlc_delta_is_sparse(masks->k, w->n)) {
        const size_t dense = tlc_delta_dense_write(w, next, dst, *len ? *len - 1 : cap);
        if (dense) {
            *len = dense;
            return TLC_DELTA_DENSE;
        }
    }
    return TLC_DELTA_SPARSE;
}

tlc_delta_kind tlc_delta_block_write(const tlc_delta_weights *w, const uint8_t *next, uint8_t *dst, size_t *len)
{
    const size_t raw = tlc_unit_bytes(tlc_delta_unit(w->dtype), w->n);
    tlc_delta_masks masks;

    *len = 0;
    if (w->base && !tlc_delta_compare(w, next, &masks))
        return TLC_DELTA_SAME;
    const tlc_delta_kind kind = tlc_delta_block_code(w, &masks, next, dst, raw - 1, len);
    if (*len)
        return kind;
    *len = raw;
    tlc_units_pack(dst, next, w->n, tlc_delta_unit(w->dtype));
    return TLC_DELTA_RAW;
}

static int check_one(const tlc_delta_block *b)
{
    switch (b->kind) {
    case TLC_DELTA_SAME: return b->weights.base && !b->len;
    case TLC_DELTA_SPARSE: return b->weights.base != NULL; /* they are checked together */
    case TLC_DELTA_DENSE: return tlc_delta_dense_check(&b->weights, b->src, b->len);
    case TLC_DELTA_RAW: return b->len == tlc_unit_bytes(tlc_delta_unit(b->weights.dtype), b->weights.n);
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

void tlc_delta_block_apply(const tlc_delta_block *b, tlc_delta_window window, uint8_t *weights)
{
    const tlc_delta_weights *w = &b->weights;
    const tlc_weight_unit unit = tlc_delta_unit(w->dtype);

    switch (b->kind) {
    case TLC_DELTA_SAME: break;
    case TLC_DELTA_SPARSE: tlc_delta_sparse_apply(w, b->src, b->len, window, weights); break;
    case TLC_DELTA_DENSE: tlc_delta_dense_apply(w, b->src, b->len, window, weights); break;
    case TLC_DELTA_RAW:
        tlc_units_unpack(weights, b->src + tlc_unit_bytes(unit, window.first), window.end - window.first, unit);
        break;
    }
}

int tlc_delta_block_changes(const tlc_delta_block *b, tlc_delta_take_changes take, void *arg)
{
    return (b->kind == TLC_DELTA_SPARSE ? tlc_delta_sparse_changes : tlc_delta_dense_changes)(&b->weights, b->src,
                                                                                              b->len, take, arg);
}
