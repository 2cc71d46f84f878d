/* SPDX-License-Identifier: MIT
 *
 * How many bytes a frame will have, about. Owners are balanced by it, so it must be the same on all machines: it uses
 * integers only.
 */
#ifndef TLC_COST_H
#define TLC_COST_H

#include <stddef.h>
#include <stdint.h>
#include <threelc/threelc.h>

/* *cost: the bytes that n values have with a codec, if they are sent in pieces of `piece` values, at least 1, with a
 * frame each. text: the codec string. Fails as tlc_codec_bound does. */
tlc_status tlc_frame_cost(const char *text, size_t n, size_t piece, uint64_t *cost);
#endif
