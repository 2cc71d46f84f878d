/* SPDX-License-Identifier: MIT
 *
 * Positions as a bitmap without signs: ceil(n / 8) bytes. Bit i % 8 of byte i / 8 is for value i. Bits beyond n are 0.
 */
#include "../common/bytes.h"
#include "../common/sizes.h"
#include "positions.h"

static uint64_t bound(uint64_t n, uint64_t members_max, int has_signs)
{
    (void)members_max;
    (void)has_signs;
    return tlc_ceil_div(n, 8);
}

static size_t encode(const tlc_members *m, uint8_t *dst, size_t cap)
{
    size_t size = (size_t)tlc_ceil_div(m->n, 8), i = 0;

    if (size > cap)
        return 0;
    for (; i + 8 <= size; i += 8)
        tlc_store64(dst + i, m->mask[i / 8]);
    for (; i < size; i++)
        dst[i] = (uint8_t)(m->mask[i / 8] >> i % 8 * 8);
    return size;
}

static size_t open(tlc_positions_reader *r, const tlc_positions_format *format, const uint8_t *src, size_t len,
                   tlc_trust trust)
{
    uint64_t size = tlc_ceil_div(format->n, 8);

    if (trust == TLC_CHECK && (len < size || !tlc_bits_padding(src, format->n)))
        return 0;
    int known = trust == TLC_CHECKED && format->value_bits == 32;
    r->k = known ? (len - size) / 4 : format->k->count_ones(src, (size_t)size);
    if (trust == TLC_CHECK && tlc_values_size(format->value_bits, r->k) != len - size)
        return 0;
    r->as_masks = 1;
    r->bitmap = src;
    r->left = format->n;
    return (size_t)size;
}

static int read_mask(tlc_positions_reader *r, tlc_positions_batch *batch)
{
    size_t whole = r->left / 64 < batch->count ? (size_t)(r->left / 64) : batch->count;

    if (!r->left)
        return 0;
    for (size_t w = 0; w < whole; w++)
        batch->mask[w] = tlc_load64(r->bitmap + 8 * w);
    r->bitmap += 8 * whole;
    r->left -= 64 * whole;
    if (whole == batch->count)
        return 1;
    batch->mask[whole] = 0;
    for (size_t i = 0; 8 * i < r->left; i++)
        batch->mask[whole] |= (uint64_t)r->bitmap[i] << 8 * i;
    r->left = 0;
    return 1;
}

const tlc_positions tlc_positions_bitmap = {
    .bound = bound,
    .encode = encode,
    .open = open,
    .read = read_mask,
};
