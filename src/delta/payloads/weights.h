/* SPDX-License-Identifier: MIT
 *
 * Weights and their differences, one at a time; kernels/delta.h has the rest.
 */
#ifndef TLC_DELTA_WEIGHTS_H
#define TLC_DELTA_WEIGHTS_H

#include "../../common/bytes.h"
#include "../../kernels/delta.h"
#include "../../values/dtype.h"

/* n units of weights become bytes of a payload, or the other way around. */
static inline void tlc_units_pack(uint8_t *payload, const uint8_t *weights, size_t n, tlc_weight_unit unit)
{
    const size_t size = tlc_unit_width(unit) == 4 ? 1 : tlc_unit_width(unit) / 8;

    if (unit != TLC_UNIT_HALF)
        tlc_copy_le(payload, weights, tlc_unit_bytes(unit, n) / size, size);
    for (size_t i = 0; unit == TLC_UNIT_HALF && i < n; i++)
        tlc_store32(payload + 4 * i, tlc_weight_load(weights, i, unit));
}

static inline void tlc_units_unpack(uint8_t *weights, const uint8_t *payload, size_t n, tlc_weight_unit unit)
{
    const size_t size = tlc_unit_width(unit) == 4 ? 1 : tlc_unit_width(unit) / 8;

    if (unit != TLC_UNIT_HALF)
        tlc_copy_le(weights, payload, tlc_unit_bytes(unit, n) / size, size);
    for (size_t i = 0; unit == TLC_UNIT_HALF && i < n; i++)
        tlc_weight_store(weights, i, unit, tlc_load32(payload + 4 * i));
}
#endif
