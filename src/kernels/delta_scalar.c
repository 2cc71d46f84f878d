/* SPDX-License-Identifier: MIT */
#include "delta.h"

TLC_DELTA_INLINE uint64_t delta_scalar(const uint8_t *base, const uint8_t *next, size_t n, uint64_t *changed,
                                       uint64_t *negative, uint64_t *large, tlc_weight_unit unit)
{
    uint64_t count = 0;

    for (size_t i = 0; i < n; i += 64)
        count += tlc_delta_word(base, next, i, n - i < 64 ? n - i : 64, changed, negative, large, unit);
    return count;
}

TLC_DELTA_COMPARES(scalar, , delta_scalar)

TLC_DELTA_INLINE void move_scalar(uint8_t *weights, size_t n, const uint64_t *changed, const uint64_t *negative,
                                  tlc_weight_unit unit)
{
    for (size_t i = 0; i < n; i += 64)
        tlc_delta_move_word(weights, i, changed[i / 64], negative[i / 64], unit);
}

void tlc_delta_move16_scalar(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move_scalar(weights, n, changed, negative, TLC_UNIT_F16);
}

void tlc_delta_move32_scalar(void *weights, size_t n, const uint64_t *changed, const uint64_t *negative)
{
    move_scalar(weights, n, changed, negative, TLC_UNIT_F32);
}

void tlc_delta_classes16_scalar(const void *base, const void *next, size_t n, uint8_t *class, uint32_t *bits)
{
    for (size_t i = 0; i < n; i++) {
        const tlc_delta_symbol y = tlc_delta_symbol_of(base, next, i, TLC_UNIT_F16);
        class[i] = (uint8_t)y.class;
        bits[i] = y.bits;
    }
}

uint64_t tlc_delta_extras16_scalar(const uint8_t *bytes, size_t size, uint64_t bit, const uint8_t *class, size_t n,
                                   void *weights)
{
    for (size_t i = 0; i < n; bit += class[i++])
        tlc_delta_move_symbol(weights, i, class[i], tlc_delta_extra(bytes, size, bit, class[i]), TLC_UNIT_F16);
    return bit;
}
