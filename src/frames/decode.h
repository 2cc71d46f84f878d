/* SPDX-License-Identifier: MIT
 *
 * From a frame to the caller's values. The whole frame is checked before the first value is written.
 */
#ifndef TLC_DECODE_H
#define TLC_DECODE_H

#include "../coding/coder.h"
#include "frame.h"

/* Is the payload valid, to its last bit? The header was read before. If it is not, f->fault tells why. */
int tlc_decode_check(const tlc_kernels *k, tlc_frame *f);

/* Decodes a frame that has passed the check. Calls tlc_output_for. */
void tlc_decode_frame(const tlc_frame *f, tlc_output *output, const tlc_parallel *parallel);

/* Sets the fields of output that depend on the codec. */
void tlc_output_for(tlc_output *output, const tlc_frame *f);

/* How many values were clipped. The frame has passed the check. */
uint64_t tlc_decode_clipped(const tlc_frame *f);
#endif
