/* SPDX-License-Identifier: MIT */
#ifndef SIM_WARM_H
#define SIM_WARM_H

#include "../lib/source.h"

/* Gives the tensors of a drawn source (f32) the residuals that the codec leaves after 50 steps. Sizes of frames depend
 * on residuals, so machines start from these, as from recorded ones. */
bool warm_residuals(source *s, const char *codec, tlc_isa isa, uint64_t seed, char *why);
#endif
