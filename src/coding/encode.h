/* SPDX-License-Identifier: MIT
 *
 * From gradient and residual to a frame, as a plan (plan.h) says.
 *
 * How results stay the same for any number of threads: a tensor, or each block of it, is cut into ranges by its size alone,
 * each range is encoded alone, and the ends of neighbouring ranges are joined in order.
 */
#ifndef TLC_ENCODE_H
#define TLC_ENCODE_H

#include "coder.h"

/* What is compressed, and how. */
typedef struct tlc_job {
    const tlc_codec *codec;
    tlc_input input;
    size_t n;
    tlc_random random;
    uint64_t *scratch; /* tlc_scratch_size bytes, of TLC_RANGES_MAX units if parallel */
    int checksum, assume_finite;
    const tlc_parallel *parallel;
} tlc_job;

/* Writes a frame; dst has room for tlc_frame_bound. Like tlc_encode_begin it may change the job's input. */
tlc_status tlc_encode_frame(tlc_job *job, uint8_t *dst, size_t *written);

/* residual += gradient, or TLC_ERR_NONFINITE. */
tlc_status tlc_encode_accumulate(const tlc_job *job);

/* Measures a tensor that is not blocked, n > 0, and sets the scalars and the selection of its unit, which coders encode.
 * The unit refers to the job, whose input loses its gradient once the residual holds it. TLC_ERR_NONFINITE. */
tlc_status tlc_encode_begin(tlc_job *job, tlc_coding *c);
#endif
