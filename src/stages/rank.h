/* SPDX-License-Identifier: MIT */
#ifndef TLC_RANK_H
#define TLC_RANK_H

#include "../common/float_rules.h"

/* The rank-th largest of count values below 2^31; 1 <= rank <= count. */
uint32_t tlc_ranked(const uint32_t *values, size_t count, size_t rank);
#endif
