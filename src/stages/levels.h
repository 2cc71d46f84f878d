/* SPDX-License-Identifier: MIT
 *
 * What int8 and qsgd share: x / max in 2 K + 1 levels, a byte each.
 */
#ifndef TLC_LEVELS_H
#define TLC_LEVELS_H

#include "pieces.h"

#define TLC_LEVELS_8 127.0f /* K for 8 bits, and for 4 */
#define TLC_LEVELS_4 7.0f

extern const tlc_pieces tlc_level_bytes;

void tlc_levels_prepare(tlc_unit *u, uint32_t max); /* the scalar: max */

/* q of count values; all are 0 if max is. words NULL: to the nearest level. */
void tlc_levels_of(const tlc_unit *u, const float *x, const uint32_t *words, size_t count, float K, int8_t *q);

int tlc_level_bytes_check(const tlc_unit *u, const uint8_t *src, size_t len);
#endif
