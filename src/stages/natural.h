/* SPDX-License-Identifier: MIT */
#ifndef TLC_NATURAL_H
#define TLC_NATURAL_H

#include "pieces.h"

#define TLC_NATURAL_HEAD 4        /* the count of clipped values */
#define TLC_NATURAL_SHIFT_MAX 117 /* 2^(10 + shift) is finite */

/* Are these codes of 8 bits? */
int tlc_natural_codes_valid(const uint8_t *codes, size_t n);
#endif
