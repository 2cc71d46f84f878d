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
    int known = trust == TLC_CHECKED && (format->value_bits == 32 || (format->value_bits && format->in_parts));
    r->k = known ? (len - size) * 8 / format->value_bits : format->k->count_ones(src, (size_t)size);
    if (trust == TLC_CHECK && tlc_values_size(format->value_bits, r->k) != len - size)
        return 0;
    r->as_masks = 1;
    r->bitmap = src;
    r->n = format->n;
    r->place = (tlc_golomb_run){0, 0, 0};
    r->kernels = format->k;
    return (size_t)size;
}

/* Word w of the mask. */
static uint64_t word_at(const tlc_positions_reader *r, uint64_t w)
{
    uint64_t word = 0;

    if (64 * w + 64 <= r->n)
        return tlc_load64(r->bitmap + 8 * w);
    for (size_t i = 0; 64 * w + 8 * i < r->n; i++)
        word |= (uint64_t)r->bitmap[8 * w + i] << 8 * i;
    return word;
}

static int read_mask(tlc_positions_reader *r, uint64_t end, tlc_positions_batch *batch)
{
    uint64_t w = r->place.next / 64;

    (void)end;
    if (r->place.next >= r->n)
        return 0;
    for (size_t i = 0; i < batch->count; i++)
        batch->mask[i] = word_at(r, w++);
    r->place.next = 64 * w;
    return 1;
}

static void skip(tlc_positions_reader *r, uint64_t to)
{
    r->place.count += r->kernels->count_ones(r->bitmap + r->place.next / 8, (size_t)(to - r->place.next) / 8);
    r->place.next = to;
}

const tlc_positions tlc_positions_bitmap = {
    .bound = bound,
    .encode = encode,
    .open = open,
    .read = read_mask,
    .skip = skip,
};
