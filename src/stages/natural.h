/* SPDX-License-Identifier: MIT */
#ifndef TLC_NATURAL_H
#define TLC_NATURAL_H

#include "pieces.h"

#define TLC_NATURAL_HEAD 4        /* the count of clipped values */
#define TLC_NATURAL_SHIFT_MAX 117 /* 2^(10 + shift) is finite */

const tlc_pieces *tlc_natural_pieces(const tlc_codec *codec);
#endif
