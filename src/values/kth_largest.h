/* SPDX-License-Identifier: MIT */
#ifndef TLC_KTH_LARGEST_H
#define TLC_KTH_LARGEST_H

#include "../common/float_rules.h"

/* The k-th largest of count numbers below 2^31; 1 <= k <= count. Its bits below `lowest`, a power of two, become 0. */
uint32_t tlc_kth_largest(const uint32_t *numbers, size_t count, size_t k, uint32_t lowest);
#endif
