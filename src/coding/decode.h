/* SPDX-License-Identifier: MIT
 *
 * From a frame to the caller's values. A frame is checked whole before the first value is written.
 */
#ifndef TLC_DECODE_H
#define TLC_DECODE_H

#include "coder.h"
#include "frame.h"

/* Is the payload of a frame whose header was read sound to the last bit? */
int tlc_decode_check(const tlc_kernels *k, const tlc_frame *f);

/* Decodes a frame that passed the check. Sets what the output must know about the codec. */
void tlc_decode_frame(const tlc_frame *f, tlc_output *output, const tlc_parallel *parallel);

/* About a frame that passed the check: how many values were clipped. */
uint64_t tlc_decode_clipped(const tlc_frame *f);
#endif
