/* SPDX-License-Identifier: MIT */
#include "member_values.h"
#include "../common/bytes.h"

static unsigned code_of(const tlc_value_writer *w, float value)
{
    uint32_t bits = tlc_float_bits(value);
    unsigned larger = w->bits == 2 && (bits & TLC_F32_ABS) == tlc_float_bits(w->u->scalars[1]);

    return larger << 1 | bits >> 31;
}

void tlc_values_write(tlc_value_writer *w, const float *values, size_t count)
{
    if (w->bits == 32) {
        tlc_copy_le(w->to, values, count, sizeof *values);
        w->to += count * sizeof *values;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        w->open |= code_of(w, values[i]) << w->used;
        w->used += w->bits;
        if (w->used == 8) {
            *w->to++ = (uint8_t)w->open;
            w->open = w->used = 0;
        }
    }
}

uint8_t *tlc_values_end(tlc_value_writer *w)
{
    if (w->used)
        *w->to++ = (uint8_t)w->open;
    return w->to;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

tlc_value_reader tlc_values_at(const tlc_unit *u, const uint8_t *src, uint64_t count)
{
    const float *m = u->scalars;
    return (tlc_value_reader){src, tlc_value_bits(u->quantizer, u->params), 0, count, {m[0], -m[0], m[1], -m[1]}};
}

static unsigned code_at(const uint8_t *src, unsigned bits, uint64_t i)
{
    return (unsigned)src[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

void tlc_values_read(tlc_value_reader *r, size_t count, float *values)
{
    const uint8_t *from = r->from + r->next * sizeof *values;

    if (r->bits == 32)
        tlc_copy_le(values, from, count, sizeof *values);
    else
        for (size_t i = 0; i < count; i++)
            values[i] = r->value[code_at(r->from, r->bits, r->next + i)];
    r->next += count;
}

const void *tlc_values_peek(const tlc_value_reader *r, const uint64_t mask[TLC_MASK_WORDS], float buf[TLC_CHUNK],
                            size_t *have)
{
    tlc_value_reader copy = *r;

    *have = r->count - r->next < TLC_CHUNK ? (size_t)(r->count - r->next) : TLC_CHUNK;
    if (r->bits == 32 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
        return r->from + r->next * sizeof *buf;
    for (size_t w = *have = 0; w < TLC_MASK_WORDS; w++)
        *have += tlc_count_ones(mask[w]);
    tlc_values_read(&copy, *have, buf);
    return buf;
}

/* Are all floats finite and not 0? */
static int floats_valid(const uint8_t *src, uint64_t count)
{
    unsigned bad = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t magnitude = tlc_load32(src + i * sizeof(float)) & TLC_F32_ABS;
        bad |= magnitude - 1 >= TLC_F32_INF - 1;
    }
    return !bad;
}

int tlc_values_valid(const tlc_unit *u, const uint8_t *src, uint64_t count)
{
    unsigned bits = tlc_value_bits(u->quantizer, u->params);
    const uint32_t m[2] = {tlc_float_bits(u->scalars[0]), tlc_float_bits(u->scalars[1])};

    if (bits == 32)
        return floats_valid(src, count);
    if (count * bits % 8 && src[count * bits / 8] >> (count * bits % 8))
        return 0;
    if (bits == 1 || (m[0] && m[1]))
        return m[0] || !count;
    for (uint64_t i = 0; i < count; i++)
        if (!m[code_at(src, bits, i) >> 1])
            return 0;
    return 1;
}
