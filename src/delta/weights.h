/* SPDX-License-Identifier: MIT
 *
 * Weights and their differences, one at a time; kernels/delta.h has the rest.
 */
#ifndef TLC_DELTA_WEIGHTS_H
#define TLC_DELTA_WEIGHTS_H

#include "../common/bytes.h"
#include "../kernels/delta.h"

/* Copies elements of so many bytes from the machine's byte order to little-endian, or back. */
static inline void tlc_copy_little_endian(uint8_t *dst, const uint8_t *src, size_t size, size_t element)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; element > 1 && i < size; i++)
        dst[i] = src[i / element * element + (element - 1 - i % element)];
    if (element > 1)
        return;
#endif
    (void)element;
    memcpy(dst, src, size);
}

/* n units of weights become bytes of a payload, or the other way around. */
static inline void tlc_units_pack(uint8_t *payload, const uint8_t *weights, size_t n, tlc_weight_unit unit)
{
    if (unit != TLC_UNIT_HALF) {
        tlc_copy_little_endian(payload, weights, tlc_unit_bytes(unit, n), tlc_unit_width(unit) / 8);
        return;
    }
    for (size_t i = 0; i < n; i++)
        tlc_store32(payload + 4 * i, tlc_weight_load(weights, i, unit));
}

static inline void tlc_units_unpack(uint8_t *weights, const uint8_t *payload, size_t n, tlc_weight_unit unit)
{
    if (unit != TLC_UNIT_HALF) {
        tlc_copy_little_endian(weights, payload, tlc_unit_bytes(unit, n), tlc_unit_width(unit) / 8);
        return;
    }
    for (size_t i = 0; i < n; i++)
        tlc_weight_store(weights, i, unit, tlc_load32(payload + 4 * i));
}
#endif
