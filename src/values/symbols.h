/* SPDX-License-Identifier: MIT */
#ifndef TLC_SYMBOLS_H
#define TLC_SYMBOLS_H

#include "../common/float_rules.h"

/* Is every symbol -1, 0 or 1? */
static inline int tlc_symbols_valid(const int8_t *q, size_t n)
{
    unsigned bad = 0;

    for (size_t i = 0; i < n; i++)
        bad |= (unsigned)(q[i] + 1) > 2;
    return !bad;
}
#endif
