/* SPDX-License-Identifier: MIT
 *
 * Golomb codes, for the interface of positions.h.
 */
#include "positions.h"

static size_t encode(const tlc_members *m, uint8_t *dst, size_t cap)
{
    return tlc_golomb_write(m->mask, m->negative, m->n, m->k, dst, cap);
}

static size_t open(tlc_positions_reader *r, const tlc_positions_format *format, const uint8_t *src, size_t len,
                   tlc_trust trust)
{
    size_t size;

    if (!tlc_golomb_open(&r->golomb, format->k, src, len, format->n, format->has_signs))
        return 0;
    r->k = r->golomb.k;
    r->place = r->golomb.run;
    if (trust == TLC_CHECK)
        return tlc_golomb_check(&r->golomb, &size) && tlc_values_size(format->value_bits, r->k) == len - size ? size
                                                                                                              : 0;
    size = len - (size_t)tlc_values_size(format->value_bits, r->k);
    r->golomb.size = size - r->golomb.head;
    /* Masks are only used if there are values. */
    r->as_masks = format->value_bits && !format->in_parts && tlc_golomb_masks_begin(&r->golomb_masks, &r->golomb);
    return size;
}

static int read_batch(tlc_positions_reader *r, uint64_t end, tlc_positions_batch *batch)
{
    if (r->as_masks) {
        tlc_golomb_masks_next(&r->golomb_masks, batch->mask, batch->count);
        return 1;
    }
    r->golomb.run = r->place;
    batch->count = tlc_golomb_next_before(&r->golomb, end, batch->index, batch->negative, TLC_BATCH);
    r->place = r->golomb.run;
    return batch->count > 0;
}

static void skip(tlc_positions_reader *r, uint64_t to)
{
    r->golomb.run = r->place;
    tlc_golomb_skip(&r->golomb, to);
    r->place = r->golomb.run;
}

const tlc_positions tlc_positions_golomb = {
    .whole = 1,
    .bound = tlc_golomb_bound,
    .encode = encode,
    .open = open,
    .read = read_batch,
    .skip = skip,
};
