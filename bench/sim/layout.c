/* SPDX-License-Identifier: MIT */
#include "layout.h"

const layout_kind *const layout_kinds[LAYOUT_KINDS] = {&layout_all_reduce, &layout_gather, &layout_server};
