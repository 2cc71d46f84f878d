/* SPDX-License-Identifier: MIT
 *
 * How large frames and the memory to make them can be.
 */
#ifndef TLC_BOUNDS_H
#define TLC_BOUNDS_H

#include "../codec/codec.h"
#include "../codec/text.h"

/* Largest frame of n values. TLC_ERR_SIZE on overflow. */
tlc_status tlc_frame_bound(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t *bound);

/* Whether any frame of n values has room in cap bytes. TLC_ERR_SIZE, TLC_ERR_CAPACITY: w says it. */
tlc_status tlc_frame_room(const tlc_codec *codec, tlc_dtype dtype, int checksum, size_t n, size_t cap, tlc_text *w);

/* Bytes of scratch memory for a tensor of n values if up to `tasks` units are encoded at the same time. TLC_ERR_SIZE on
 * overflow. */
tlc_status tlc_scratch_size(const tlc_codec *codec, size_t n, size_t tasks, size_t *size);
#endif
